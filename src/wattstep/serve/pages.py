"""The pages of the server as text: templates that escape every name, and the policy that goes with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape, unescape
from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup

from wattstep.report.html.page import content_policy, environment, own_file, script_source
from wattstep.serve.auth import Guard

# Ours sends forms to itself and asks itself what changed; nobody may frame it.
_OWN: Final = "form-action 'self'; connect-src 'self'; frame-ancestors 'none'"
# A report is a page of its own origin: even a script in it could ask this server for nothing.
_SANDBOX: Final = "frame-ancestors 'none'; sandbox allow-scripts allow-downloads allow-popups"
_POLICY: Final = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_BODY: Final = re.compile(rb"<body[^>]*>")


class Pages:
    """Renders templates.

    Args:
        guard: Whose token goes into forms.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._environment = environment("wattstep.serve", "wattstep.report.html")
        self._style = Markup(own_file("report.css") + _file("serve.css"))
        self._script = script_source(_file("list.js"))
        policy = content_policy([self._script]).replace("form-action 'none'", "")
        self.policy = f"{policy.rstrip('; ')}; {_OWN}"

    def render(self, template: str, **parts: Any) -> str:
        """A whole page, or a part of one.

        Args:
            template: Its file.
            parts: Variables of the template.
        """
        return self._environment.get_template(template).render(
            token=self._guard.token, style=self._style, script=self._script, **parts
        )


def report_policy(page: bytes) -> str:
    """The policy with which a report is sent: its own, and that it is nobody's but its own."""
    head = page[:65536].decode("utf-8", "replace")
    match = _POLICY.search(head)
    own = unescape(match.group(1)) if match else "default-src 'none'"
    return f"{own}; {_SANDBOX}"


def with_way_back(page: bytes, links: Mapping[str, str]) -> bytes:
    """A report with links at its top: how to get on, by address.

    Args:
        page: The report.
        links: Link texts, and the addresses on this server.
    """
    anchors = " · ".join(f'<a href="{escape(to)}">{escape(text)}</a>' for text, to in links.items())
    style = "max-width:1120px;margin:0 auto;padding:12px clamp(12px,3vw,32px) 0;font-size:.88rem"
    line = f'<p class="way-back" style="{style}">{anchors}</p>'.encode()
    return _BODY.sub(lambda match: match.group(0) + line, page, count=1)


def _file(name: str) -> str:
    return (files("wattstep.serve") / "templates" / name).read_text(encoding="utf-8")
