"""The command line: one small module per command, imported when the command is used."""

from __future__ import annotations

import importlib
import signal
import sys
import traceback
from types import FrameType
from typing import Any, NoReturn

import click

from unlearnbench import messages
from unlearnbench.cli.flags import with_flags
from unlearnbench.cli.program import as_typed, program
from unlearnbench.cli.streams import standard_streams
from unlearnbench.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, UnlearnbenchError, nearest
from unlearnbench.running.forks import handling

COMMANDS = {
    "run": "Run methods on datasets and print tables.",
    "audit": "Ask whether forgotten data is really gone.",
    "tune": "Tune methods, each with the same number of trials.",
    "forget": "Serve a request to forget on a saved model.",
    "report": "Rebuild tables from records.",
    "reproduce": "Show a paper's table as it is printed, with ours beside.",
    "leaderboard": "Write or check the leaderboard, submit records.",
    "store": "Look after a results folder.",
    "ls": "List components, tables or experiments.",
    "show": "Show one component, table or experiment.",
    "plugins": "List plugins and what became of them.",
    "plugin": "Write a plugin of your own, and check it.",
    "doctor": "Check what this machine offers: devices, memory readings, data.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported only when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"unlearnbench.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the error for a misspelt one names the nearest."""
        if args and args[0] not in COMMANDS:
            close = nearest(args[0], COMMANDS, 1)
            ctx.fail(f"There is no command {args[0]!r}.{f' Did you mean {close[0]}?' if close else ''}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="unlearnbench", prog_name="unlearnbench")
def cli() -> None:
    """Benchmark graph unlearning: which method forgets, at what cost, at what loss.

    Start with: unlearnbench run --methods sisa,grapheraser,graphrevoker
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; errors for users are two lines and an exit code."""
    # SIGTERM, as job schedulers send it, is handled like Ctrl-C: finished cells are saved already.
    messages.hide_warnings_of_torch()
    with handling(signal.SIGTERM, _interrupt), standard_streams():
        code = _exit_code(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


def _exit_code(given: list[str]) -> int:
    """Run a command, print the error that ended it, and return the exit code."""
    try:
        outcome: Any = cli.main(given, prog_name="unlearnbench", standalone_mode=False)
        sys.stdout.flush()
    except UnlearnbenchError as error:
        if "--debug" in given:
            traceback.print_exception(error)
        messages.error(with_flags(error.message, cli), as_typed(with_flags(error.hint, cli), COMMANDS))
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return EXIT_USAGE
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = " ".join([program(), *(context.command_path.split(" ")[1:] if context else [])])
        messages.error(" ".join(error.format_message().split()), f"Its options: {command} --help")
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort) as stop:
        # click raises an Abort of its own, without the words of what was interrupted.
        said = str(stop) or str(stop.__cause__ or "") or "interrupted."
        print(f"{said} The same command again goes on from there.", file=sys.stderr)
        return EXIT_INTERRUPTED
    return outcome if isinstance(outcome, int) else EXIT_OK


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
