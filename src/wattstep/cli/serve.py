"""`wattstep serve`: the store in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from wattstep.cli.options import Json, Quiet
from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.serve.starting import Served

PORT = 8750
_WARNING = (
    "wattstep: warning: --host {}: others in the network can reach this server. Whoever has its link "
    "sees all runs and can delete them{}."
)
_UNENCRYPTED = ", and the link travels unencrypted (--certificate FILE encrypts it)"


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Folder that holds runs.")
    ] = Path("runs"),
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Only this machine reaches the default; on any other, a "
            "secret in the link that is printed is asked for.",
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port; 0 takes one that is free.", metavar="N", min=0, max=65535)
    ] = PORT,
    login: Annotated[
        bool,
        typer.Option(
            "--login",
            help="Ask for the secret of the link on this machine, too: others have accounts here.",
        ),
    ] = False,
    certificate: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Encrypt by TLS: certificate in PEM, with those that it is signed with.",
            metavar="FILE",
        ),
    ] = None,
    key: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Its private key in PEM, without a password. [default: in the same file]",
            metavar="FILE",
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show recorded runs in a browser: list, open, compare, delete. Ends with Ctrl-C."""
    from wattstep.schema.extras import require

    for part in ("starlette", "uvicorn"):
        require(part)
    from wattstep.serve.auth import is_loopback
    from wattstep.serve.starting import Certificate
    from wattstep.serve.starting import serve as serve_folder

    def ready(served: Served) -> None:
        if not is_loopback(host):
            how = _UNENCRYPTED if certificate is None else ""
            print(_WARNING.format(host, how), file=sys.stderr, flush=True)
        _tell(served, json, quiet)
        if open_browser:
            import webbrowser

            webbrowser.open(served.url)

    if key is not None and certificate is None:
        raise InvalidValueError("--key is of a certificate: give --certificate", id="key-alone")
    pem = None if certificate is None else Certificate(chain=certificate, key=key)
    serve_folder(folder, host, port, login=login, ready=ready, certificate=pem)


def _tell(served: Served, as_json: bool, quiet: bool) -> None:
    if as_json:
        from dataclasses import asdict

        from wattstep.report.json_document import dump

        dump(asdict(served), sys.stdout)
        sys.stdout.flush()
        return
    print(f"{served.store}: {served.url}", flush=True)
    if not quiet:
        print("Ctrl-C ends the server", file=sys.stderr, flush=True)
