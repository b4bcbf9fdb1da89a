"""Pages as the text of HTML files, from templates."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from weft.report.packing import script_json


def template(name: str) -> str:
    """Return the text of a template file."""
    return resources.files("weft.report").joinpath("templates", name).read_text(encoding="utf-8")


def style_of(names: Sequence[str]) -> str:
    """Return style sheets as the text of one style element."""
    return "".join(map(template, names))


def script_of(names: Sequence[str]) -> str:
    """Return scripts as the text of one script element."""
    return '(() => {\n"use strict";\n' + "\n".join(map(template, names)) + "})();\n"


def policy(style: str, script: str, *, connects: bool = False) -> str:
    """Return the content security policy of a page, which allows one style and one script element.

    `connects`: whether the script may send requests to the server of the page.
    """
    connect = " connect-src 'self';" if connects else ""
    return (
        f"default-src 'none';{connect} script-src '{_content_hash(script)}'; "
        f"style-src '{_content_hash(style)}'; base-uri 'none'; form-action 'none'"
    )


def _content_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def render_page(
    name: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Mapping[str, Any],
    blobs: Mapping[str, str],
    *,
    connects: bool = False,
    **values: Any,
) -> str:
    """Return a page as the text of an HTML file.

    - `name`, `styles`, `scripts`: names of the template, of its style sheets and of its scripts.
    - `data`: data of the scripts, of JSON types.
    - `blobs`: texts of `weft.report.packing.packed`, by the id of their elements.
    - `connects`: as for `policy`.
    - `**values`: values for the template; ``title``, ``facts`` and ``notes`` are required.
    """
    style, script = style_of(styles), script_of(scripts)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, loader=jinja2.FunctionLoader(template)
    )
    text = environment.get_template(name).render(
        data=Markup(script_json(data)),
        blobs={key: Markup(blob) for key, blob in blobs.items()},
        style=Markup(style),
        script=Markup(script),
        # A policy has no characters that end an attribute in double quotes.
        policy=Markup(policy(style, script, connects=connects)),
        **values,
    )
    # Names from files may contain lone surrogates, which UTF-8 lacks; they become question marks.
    return text.encode("utf-8", "replace").decode("utf-8")
