"""write_report: one self-contained HTML file about a run."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path

from rl_core.errors import InputError
from rl_core.report.page import context
from rl_core.report.run import Run, load_run
from rl_core.run_folder import write_atomic


def _asset(name: str) -> str:
    return resources.files("rl_core.report").joinpath("templates", name).read_text(encoding="utf-8")


def render(run: Run) -> str:
    """The page as text. Everything from the run is escaped; only our own style and script may act (by CSP)."""
    from jinja2 import Environment, StrictUndefined

    script = _asset("tips.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    env = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = env.from_string(_asset("report.html.j2"))
    return template.render(css=_asset("style.css"), script=script, script_hash=digest, **context(run))


def write_report(run_dir: Path, out: Path | None = None) -> Path:
    """Write the report of a run, finished or not, and give its path (default: report.html in the run folder).

    Raises InputError (one line) when the run folder is missing or broken, or the file cannot be written.
    """
    run_dir = Path(run_dir)
    text = render(load_run(run_dir))
    target = Path(out) if out is not None else run_dir / "report.html"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, text)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or type(error).__name__})",
            where=str(target),
            mend="choose another place for the report",
        ) from None
    return target
