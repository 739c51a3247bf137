"""The commands and their options. Each is one call into a module that is loaded only then."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from lorakit import __version__
from lorakit.cli import captions_app, dataset_app
from lorakit.errors import ExitCode, LorakitError

app = typer.Typer(
    name="lorakit",
    help="Train LoRAs of Stable Diffusion models. Without a command: the wizard.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BundleFile = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle: a TOML file.")]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the bundle.")
]
RunName = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Name, start of a name, or folder. Default: the newest."),
]
RunsFolder = Annotated[
    Path | None, typer.Option("--runs", metavar="DIR", help="Where runs live.", show_default=False)
]
MachineFile = Annotated[
    Path | None,
    typer.Option(
        "--hardware",
        metavar="FILE",
        help="Judge by this machine file (hardware --save) instead of by this machine.",
        show_default=False,
    ),
]
OnCpu = Annotated[
    bool, typer.Option("--cpu", help="Train on the CPU on purpose, whatever cards there are.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_debug = False


def main() -> None:
    """Run a command and exit with its code. An error is printed once, without a traceback."""
    from lorakit.cli import streams

    streams.prepare()
    try:
        app(prog_name="lorakit")
    except LorakitError as error:
        _trace()
        problems = getattr(error, "problems", [])  # a bundle's, all of them
        streams.problems(problems, getattr(error, "path", ""))
        if not problems:
            streams.report(error)
        _exit(error.code)
    except KeyboardInterrupt:
        _exit(ExitCode.INTERRUPTED)
    except SystemExit as ended:
        _exit(ended.code if isinstance(ended.code, int) else 0)
    except OSError as error:  # a closed pipe or terminal is nobody's error
        if not isinstance(error, BrokenPipeError) and error.errno != 5:
            _bug(error)
        _exit(ExitCode.TRAINING_FAILED)
    except Exception as error:
        _bug(error)
        _exit(ExitCode.TRAINING_FAILED)


def _bug(error: Exception) -> None:
    from lorakit.cli import streams

    _trace()
    streams.report(
        LorakitError(
            f"This is a bug in lorakit: {type(error).__name__}: {error}",
            "" if _debug else "Please report it, with what this prints: lorakit --debug ...",
        )
    )


def _trace() -> None:
    if _debug:
        traceback.print_exc()


def _exit(code: int) -> None:
    """Leave, also where stdout or stderr is a pipe or terminal that is gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(int(code))


def _on_cpu(wanted: bool) -> None:
    """For this process, which looks at the machine, and for those that it starts to train."""
    if wanted:
        os.environ["LORAKIT_CPU"] = "1"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lorakit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Train LoRAs of Stable Diffusion models. Without a command: the wizard."""
    global _debug
    _debug = debug
    if context.invoked_subcommand is None:
        from lorakit.cli.new import wizard

        raise typer.Exit(wizard())


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where the demo's bundle is put.")
    ] = Path("lorakit-demo"),
    runs: RunsFolder = None,
) -> None:
    """Train a small LoRA here and now. Needs no download and no GPU, and takes minutes."""
    from lorakit.cli.demo import demo as command

    raise typer.Exit(command(folder, runs))


@app.command()
def new(
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="BUNDLE", help="Start from this bundle's answers."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Ask line by line, without a screen.")
    ] = False,
    machine: MachineFile = None,
) -> None:
    """Make a bundle with the wizard."""
    from lorakit.cli.new import wizard

    raise typer.Exit(wizard(source, plain, machine))


@app.command()
def train(
    bundle: BundleFile,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with this run, or with this bundle's newest.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it and return; see it with watch.")
    ] = False,
    cpu: OnCpu = False,
    settings: Settings = [],  # noqa: B006
    runs: RunsFolder = None,
    machine: MachineFile = None,
) -> None:
    """Train a bundle. Ctrl-C stops after the step and saves; again, it aborts."""
    from lorakit.cli import train as command

    _on_cpu(cpu)
    begin = command.resume if resume else command.train
    raise typer.Exit(begin(bundle, settings, runs, detach, machine))


@app.command()
def replay(
    source: Annotated[
        str, typer.Argument(metavar="BUNDLE|RUN", help="A bundle, or a run by name or folder.")
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse where anything differs from the lock.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it and return; watch says how it ended.")
    ] = False,
    cpu: OnCpu = False,
    runs: RunsFolder = None,
    machine: MachineFile = None,
) -> None:
    """Train a bundle again, and say whether it gives the same LoRA.

    Asks nothing. What differs from the bundle's lock is said first. The exit code is 1 where the
    same bytes were promised and did not come, 2 where --strict refuses, else that of train.
    """
    from lorakit.cli.replay import replay as command

    _on_cpu(cpu)
    raise typer.Exit(command(source, strict, runs, detach, machine))


@app.command()
def diff(
    then: Annotated[str, typer.Argument(metavar="A", help="A bundle, or a run.")],
    now: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    json: Json = False,
    runs: RunsFolder = None,
) -> None:
    """Say what differs between two bundles or runs, by meaning. Exit code 1 where anything does."""
    from lorakit.cli.diff import diff as command

    raise typer.Exit(command(then, now, runs, json))


@app.command()
def watch(run: RunName = None, runs: RunsFolder = None) -> None:
    """Look at a run. Leaving does not stop it."""
    from lorakit.cli.watch import watch as command

    raise typer.Exit(command(run, runs))


@app.command(name="runs")
def list_runs(json: Json = False, runs: RunsFolder = None) -> None:
    """List runs, newest first."""
    from lorakit.cli.runs import list_runs as command

    raise typer.Exit(command(runs, json))


@app.command()
def stop(run: RunName = None, runs: RunsFolder = None) -> None:
    """Ask a run to stop after its step and to save."""
    from lorakit.cli.stop import stop as command

    raise typer.Exit(command(run, runs))


@app.command()
def sample(
    words: Annotated[
        list[str], typer.Argument(metavar="[RUN] PROMPT", help="A run, and what to draw.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the picture.")] = 1,
    steps: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Denoising steps.", show_default=False)
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(min=1, max=50, help="How strictly to follow.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the picture goes.")
    ] = None,
    runs: RunsFolder = None,
) -> None:
    """Draw a picture with the LoRA of a run."""
    from lorakit.cli.sample import sample as command

    raise typer.Exit(command(words, seed, steps, guidance, out, runs))


@app.command()
def check(
    bundle: BundleFile,
    json: Json = False,
    cpu: OnCpu = False,
    settings: Settings = [],  # noqa: B006
    machine: MachineFile = None,
) -> None:
    """Say all that is wrong or doubtful about a bundle. Loads nothing."""
    from lorakit.cli.check import check as command

    _on_cpu(cpu)
    raise typer.Exit(command(bundle, settings, machine, json))


@app.command()
def plan(
    bundle: BundleFile,
    json: Json = False,
    settings: Settings = [],  # noqa: B006
    machine: MachineFile = None,
) -> None:
    """Say what a bundle takes in memory, time and disk, and what else would fit. Loads nothing."""
    from lorakit.cli.plan import plan as command

    raise typer.Exit(command(bundle, settings, machine, json))


@app.command()
def schema() -> None:
    """Print the JSON schema of bundles."""
    from lorakit.cli.schema import schema as command

    raise typer.Exit(command())


@app.command()
def hardware(
    json: Json = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to a file, for a report.")
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Try PyTorch too, in a process of its own.")
    ] = False,
    compile_too: Annotated[
        bool, typer.Option("--compile", help="Try torch.compile as well, which takes long.")
    ] = False,
    machine: MachineFile = None,
) -> None:
    """Say what this machine is, or one in a file."""
    from lorakit.cli.hardware import hardware as command

    raise typer.Exit(command(json, save, probe, compile_too, machine))


@app.command()
def doctor(
    bundle: Annotated[
        Path | None,
        typer.Argument(metavar="[BUNDLE]", help="Say too whether this bundle can be trained."),
    ] = None,
    json: Json = False,
    settings: Settings = [],  # noqa: B006
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Try PyTorch, in a process of its own.")
    ] = True,
    cpu: OnCpu = False,
    runs: RunsFolder = None,
    machine: MachineFile = None,
) -> None:
    """Say what stands in the way of a training here, and what cures it.

    The exit code is 3 where nothing can be trained, or not this bundle.
    """
    from lorakit.cli.doctor import doctor as command

    _on_cpu(cpu)
    raise typer.Exit(command(bundle, settings, runs, machine, probe, json))


presets_app = typer.Typer(help="List presets, or do something with one.")
app.add_typer(presets_app, name="presets")

PresetName = Annotated[str, typer.Argument(metavar="NAME", help="A preset's name, or its file.")]


@presets_app.callback(invoke_without_command=True)
def presets(context: typer.Context, json: Json = False, machine: MachineFile = None) -> None:
    """List presets, and say which are not for this machine."""
    if context.invoked_subcommand is None:
        from lorakit.cli.presets import list_presets as command

        raise typer.Exit(command(json, machine))


@presets_app.command(name="list")
def list_presets(json: Json = False, machine: MachineFile = None) -> None:
    """List presets, and say which are not for this machine."""
    from lorakit.cli.presets import list_presets as command

    raise typer.Exit(command(json, machine))


@presets_app.command(name="show")
def show_preset(name: PresetName, json: Json = False) -> None:
    """Print a preset, each value with its reason."""
    from lorakit.cli.presets import show as command

    raise typer.Exit(command(name, json))


@presets_app.command(name="copy")
def copy_preset(
    name: PresetName, file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")]
) -> None:
    """Write a whole preset to a file, to change or to share."""
    from lorakit.cli.presets import copy as command

    raise typer.Exit(command(name, file))


@presets_app.command(name="save")
def save_preset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called.")],
    source: Annotated[Path, typer.Option("--from", metavar="BUNDLE", help="Whose settings.")],
    title: Annotated[str, typer.Option(help="A few words.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace one of yours.")] = False,
) -> None:
    """Keep a bundle's settings as a preset of yours, without what is personal in them."""
    from lorakit.cli.presets import save as command

    raise typer.Exit(command(name, source, title, overwrite))


app.command()(dataset_app.dataset)
app.add_typer(captions_app.app, name="captions")

models_app = typer.Typer(
    help="List the base models on this machine, or get one from the Hub.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(models_app, name="models")


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context, json: Json = False, runs: RunsFolder = None) -> None:
    """List the base models on this machine, or get one from the Hub.

    Looks at the Hub's cache, the usual folders of ComfyUI, A1111 and their like, what runs have
    used, and the folders in LORAKIT_MODELS.
    """
    if context.invoked_subcommand is None:
        from lorakit.cli.models import show as command

        raise typer.Exit(command(json, runs))


@models_app.command(name="get")
def get_model(
    model: Annotated[
        str, typer.Argument(metavar="OWNER/NAME[/FILE]", help="A Hub id, or a file of one.")
    ],
    revision: Annotated[
        str, typer.Option(metavar="NAME", help="Commit, tag or branch. Default: the newest.")
    ] = "",
) -> None:
    """Download what training needs of a base, or one file. One that was cut off goes on."""
    from lorakit.cli.models import get as command

    raise typer.Exit(command(model, revision))


cache_app = typer.Typer(
    help="Show what is encoded already, or clear it.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cache_app, name="cache")


@cache_app.callback(invoke_without_command=True)
def cache(context: typer.Context, json: Json = False) -> None:
    """Show what is encoded already, or clear it."""
    if context.invoked_subcommand is None:
        from lorakit.cli.cache import show as command

        raise typer.Exit(command(json))


@cache_app.command(name="clear")
def clear_cache(
    older_than: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS", min=0, help="Only what was not used for so long.", show_default=False
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="BASE", help="Only what this base made.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove it, all or some. What a running training uses stays. It is made anew when needed."""
    from lorakit.cli.cache import remove as command

    raise typer.Exit(command(base, older_than, yes, json))


bench_app = typer.Typer(
    help="Measure the speed and memory of training steps on this machine.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench_app, name="bench")


@bench_app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE",
            help="pico, sd1, sd2, sdxl, a folder or a Hub id. Default: sdxl with random weights on"
            " a card, pico on a CPU.",
            show_default=False,
        ),
    ] = None,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Random weights of the base's sizes: no download.")
    ] = False,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Default: 1,8,16,32,64,128,256.", show_default=False),
    ] = None,
    attention: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Default: what is installed.", show_default=False),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="520 steps for each case, however long that takes.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="Where the results go; the picture beside it.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the cases that the file has, measure the rest.")
    ] = False,
) -> None:
    """Measure the speed and memory of training steps on this machine, in under three minutes.

    Ranks x attention kernels, real steps on random pictures. Predicted stands beside measured.
    """
    if context.invoked_subcommand is None:
        from lorakit.cli.bench import bench as command

        raise typer.Exit(command(base, synthetic, ranks, attention, full, out, resume))


@bench_app.command(name="compare")
def bench_compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="A file of lorakit bench.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
) -> None:
    """Print two benchmarks side by side, with ratios and what differs between the machines."""
    from lorakit.cli.bench import compare

    raise typer.Exit(compare(one, other))
