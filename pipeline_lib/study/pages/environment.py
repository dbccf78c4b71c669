"""The environment of report templates: shared style and macros, escaped model output, no missing variables."""

import base64
import pathlib

import jinja2

from pipeline_lib.study.pages.wording import difference, p_equation, percent


def page_environment(folder: pathlib.Path) -> jinja2.Environment:
    """Templates of ``folder``, with ``style.css`` and ``macros.html.j2`` of this package."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, pathlib.Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "difference": difference,
        "p_equation": p_equation,
        "data_uri": _data_uri,
    }
    return environment


def _data_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
