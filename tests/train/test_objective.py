from __future__ import annotations

import pytest
import torch

from lorakit.train.objective import Objective, snr_weights


def alphas(*snr: float) -> torch.Tensor:
    """alphas_cumprod with these signal-to-noise ratios."""
    ratio = torch.tensor(snr, dtype=torch.float64)
    return (ratio / (ratio + 1)).float()


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ("epsilon", [1.0, 1.0, 1.0, 0.05]),
        ("v_prediction", [0.0, 0.5, 5 / 6, 5 / 101]),
    ],
)
def test_min_snr_weights(prediction: str, expected: list[float]) -> None:
    """At SNR 0, 1, 5 and 100, gamma 5."""
    weights = snr_weights(alphas(0, 1, 5, 100), 5.0, prediction)
    assert weights.tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_weights_are_finite_on_a_schedule_that_ends_in_pure_noise(prediction: str) -> None:
    table = torch.linspace(0.9991, 0.0, 1000)
    assert torch.isfinite(snr_weights(table, 5.0, prediction)).all()


def test_without_gamma_all_count_the_same() -> None:
    assert snr_weights(alphas(0, 1, 100), 0.0, "epsilon").tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_a_perfect_answer_gives_back_the_picture(prediction: str) -> None:
    """Both targets, solved for the picture, are the picture: the formulas belong together."""
    torch.manual_seed(0)
    x, noise = torch.randn(3, 4, 2, 2), torch.randn(3, 4, 2, 2)
    t = torch.tensor([0, 1, 2])
    objective = Objective.of(alphas(100, 1, 0.1), prediction, 0.0)
    mixed, target = objective.mix(x, noise, t), objective.target(x, noise, t)
    signal, share = objective.signal[t].view(-1, 1, 1, 1), objective.noise[t].view(-1, 1, 1, 1)
    if prediction == "epsilon":
        back = (mixed - share * target) / signal
    else:
        back = signal * mixed - share * target
    assert torch.allclose(back, x, atol=1e-4)
    assert objective.loss(target, target, t) == 0


def test_the_mix_is_that_of_diffusers() -> None:
    from diffusers import DDPMScheduler

    made = DDPMScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    objective = Objective.of(made.alphas_cumprod, "v_prediction", 0.0)
    x, noise, t = torch.randn(4, 4, 3, 3), torch.randn(4, 4, 3, 3), torch.tensor([0, 10, 500, 999])
    assert torch.allclose(objective.mix(x, noise, t), made.add_noise(x, noise, t), atol=1e-6)
    assert torch.allclose(objective.target(x, noise, t), made.get_velocity(x, noise, t), atol=1e-6)


def made(*shape: int) -> tuple[Objective, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    answer = torch.randn(shape, requires_grad=True)
    return (
        Objective.of(alphas(1, 5, 9), "epsilon", 0.0),
        answer,
        torch.randn(shape),
        torch.tensor([0, 1]),
    )


def test_what_a_mask_leaves_out_teaches_nothing() -> None:
    objective, answer, target, t = made(2, 4, 6, 6)
    mask = torch.zeros(2, 1, 6, 6)
    mask[:, :, :3] = 2.0  # half of it, so that the mean is 1
    objective.loss(answer, target, t, mask).backward()
    assert answer.grad is not None
    assert (answer.grad[:, :, 3:] == 0).all()
    assert (answer.grad[:, :, :3] != 0).all()
    alone = (answer - target).square()[:, :, :3].mean()
    assert torch.allclose(objective.loss(answer, target, t, mask), alone)


def test_a_mask_of_everything_is_no_mask_to_the_bit() -> None:
    objective, answer, target, t = made(2, 4, 6, 6)
    plain = objective.loss(answer, target, t)
    assert torch.equal(objective.loss(answer, target, t, torch.ones(2, 1, 6, 6)), plain)
    assert torch.equal(objective.loss(answer, target, t, None, torch.ones(2)), plain)


def test_pictures_count_as_much_as_they_weigh() -> None:
    objective, answer, target, t = made(2, 4, 6, 6)
    each = (answer - target).square().flatten(1).mean(1)
    found = objective.loss(answer, target, t, None, torch.tensor([1.0, 0.25]))
    assert torch.allclose(found, (each[0] + 0.25 * each[1]) / 2)
