"""pyproject.toml describes the project. Here stands what it cannot say: a checkout without symbolic links builds nothing."""

from __future__ import annotations

from pathlib import Path


def main() -> None:
    for name in ("engine", "kernels", "workloads"):
        if not Path(__file__).with_name("kvtool").joinpath(name).is_dir():
            raise SystemExit(
                f"kvtool/{name} must be a symbolic link to ../{name}, and this checkout was made without symbolic links.\n"
                "Clone again with them: git clone -c core.symlinks=true URL (on Windows: in developer mode)."
            )
    from setuptools import setup

    setup()


main()
