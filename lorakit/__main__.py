"""`python -m lorakit` is the same as `lorakit`."""

from lorakit.cli.app import main

if __name__ == "__main__":
    main()
