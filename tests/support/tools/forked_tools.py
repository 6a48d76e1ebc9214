"""The commands of the project and ``python``, in processes forked from one that has loaded their imports.

Most commands of the documents take less time than their start. So the tests of the documents call programs of
the same names that hand their arguments, environment, folder, standard input and outputs to a server. For
each call it forks a process, which executes the entry point of the installed command. The process differs
from one of that command in the modules and compiled kernels that it finds loaded. Where that could matter the
installed program is started instead: with other settings (``TX8_CACHE_DIR=...``), with an option of Python
itself, or if Python's folder has a file with the name of a loaded module.

    with forked_tools(folder) as programs:
        subprocess.run(["tx8emu", ...], env={"PATH": f"{programs}:..."})
"""

from __future__ import annotations

import _socket
import array
import atexit
import gc
import io
import marshal
import os
import runpy
import selectors
import signal
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

COMMANDS = ("tx8as", "tx8dis", "tx8emu", "tx8cc", "tx8opt")
SETTINGS = ("TX8_", "PYTHON", "PMI_")
"""Prefixes of variables that need a new process: settings of loaded modules, and files of a process."""

Call = tuple[list[str], dict[str, str], str]
"""Arguments, the name of the program first, environment and folder."""

_CLIENT = """#!{python} -IS
import _socket, array, marshal, os, sys
name = os.path.basename(sys.argv[0])
def start_installed():
    program = os.path.join({installed!r}, name)
    os.execv(program, [program, *sys.argv[1:]])
settings = {{key: value for key, value in os.environ.items() if key.startswith({prefixes!r})}}
plain = name != "python" or sys.argv[1:2] and (sys.argv[1] in ("-c", "-m") or sys.argv[1][0] != "-")
if settings != {settings!r} or not plain:
    start_installed()
call = marshal.dumps((sys.argv, dict(os.environ), os.getcwd()))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
streams = array.array("i", [0, 1, 2])
server.sendmsg([len(call).to_bytes(4, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(call)
answer = server.recv(len(b"own"))
if answer == b"own":
    start_installed()
os._exit(answer[0] if answer else 70)
"""
"""The program in place of each command: it ends with the status that the server answers.

The answer ``own`` means that a separate process is needed; no answer means that the server is gone.
"""

_PROGRAM = """
        .input  x, fp16, 16x64
        .output y, fp16, 16x64
_start: csrr    t0, mhartid
        slli    t0, t0, 7
        la      a0, x
        la      a1, y
        add     a0, a0, t0
        add     a1, a1, t0
        rdma.fp16      dst=0x10000, src=a0, n=64
        ct.relu.v.fp16 dst=0x20000, src0=0x10000, n=64
        wdma.fp16      dst=a1, src=0x20000, n=64
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""


@contextmanager
def forked_tools(folder: Path) -> Iterator[Path]:
    """A folder with the programs, which work until the block ends. ``folder`` is empty."""
    address = folder / "server"
    installed = Path(sys.executable).parent
    found = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    text = _CLIENT.format(
        python=sys.executable,
        prefixes=SETTINGS,
        settings=found,
        installed=str(installed),
        address=str(address),
    )
    programs = folder / "bin"
    programs.mkdir()
    for name in (*COMMANDS, "python"):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    command = [sys.executable, __file__, str(address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            assert server.stdout.readline() == "ready\n", "the server of the tools did not start"
            yield programs
        finally:
            server.stdin.close()  # which ends it


class _Server:
    """Accepts calls, forks a process for each, and answers with its exit status when it ends."""

    def __init__(self, address: str) -> None:
        self.events = selectors.DefaultSelector()
        self.listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self.listener.bind(address)
        self.listener.listen(16)

    def serve(self) -> None:
        """Serve until standard input ends; everything that still runs is killed then."""
        children: set[int] = set()
        self.events.register(0, selectors.EVENT_READ, None)
        self.events.register(self.listener.fileno(), selectors.EVENT_READ, lambda: self._accept(children))
        while True:
            for key, _ in self.events.select():
                if key.data is None:
                    for child in children:
                        os.kill(child, signal.SIGKILL)
                    return
                key.data()

    def _accept(self, children: set[int]) -> None:
        handle, _ = self.listener._accept()
        caller = _socket.socket(fileno=handle)
        call, streams = _received(caller)
        child = -1 if _hides_a_module(call) else os.fork()
        if child == 0:
            _become(self, caller, call, streams)
        for stream in streams:
            os.close(stream)
        if child < 0:
            caller.sendall(b"own")
            caller.close()
            return
        children.add(child)
        ending = os.pidfd_open(child)

        def ended() -> None:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            children.discard(child)
            for file in (ending, caller.fileno()):
                with suppress(KeyError):
                    self.events.unregister(file)
            os.close(ending)
            with suppress(OSError):  # the caller may have exited
                caller.send(bytes([status if status >= 0 else 128 - status]))
            caller.close()

        def left() -> None:
            self.events.unregister(caller.fileno())
            os.kill(child, signal.SIGTERM)

        self.events.register(ending, selectors.EVENT_READ, ended)
        self.events.register(caller.fileno(), selectors.EVENT_READ, left)


def _hides_a_module(call: Call) -> bool:
    """Return True if Python would find a file of the caller in place of a module that is loaded here."""
    arguments, _, folder = call
    if Path(arguments[0]).name != "python":
        return False
    first = Path(folder) if arguments[1] in ("-c", "-m") else Path(folder, arguments[1]).parent
    found = (path for path in first.iterdir() if path.suffix in (".py", ".so") or path.is_dir())
    return any(path.name.partition(".")[0] in sys.modules for path in found)


def _received(caller: _socket.socket) -> tuple[Call, list[int]]:
    """A call and its three streams."""
    streams = array.array("i")
    size, received, _, _ = caller.recvmsg(4, _socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, data in received:
        streams.frombytes(data)
    call = b""
    while len(call) < int.from_bytes(size, "little"):
        call += caller.recv(1 << 16)
    return marshal.loads(call), list(streams)


def _become(server: _Server, caller: _socket.socket, call: Call, streams: list[int]) -> None:
    """Execute a call in this process, which then ends."""
    arguments, environment, folder = call
    status = 1
    try:
        server.events.close()
        server.listener.close()
        caller.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
            errors="backslashreplace",
            line_buffering=True,
        )
        status = _status(lambda: _execute(arguments))
        atexit._run_exitfuncs()
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(status)


def _execute(arguments: list[str]) -> object:
    """Execute the program of this name with these arguments."""
    name = Path(arguments[0]).name
    if name != "python":
        sys.argv = arguments
        return getattr(sys.modules["tx8_entry.commands"], name)()
    option, rest = arguments[1], arguments[2:]
    if option == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif option == "-m":
        sys.argv, sys.path[0] = rest, str(Path.cwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = arguments[1:], str(Path(option).absolute().parent)
        runpy.run_path(option, run_name="__main__")
    return None


def _status(work: Callable[[], object]) -> int:
    """Return the exit status of a process that only does this work."""
    try:
        result = work()
    except SystemExit as end:
        result = end.code
    except BaseException:
        traceback.print_exc()
        return 1
    if result is None or isinstance(result, int):
        return (result or 0) & 0xFF
    print(result, file=sys.stderr)
    return 1


def _load() -> None:
    """Import what the commands import, and have the kernels that nearly every run needs."""
    for name in ("asm.cli", "compiler.cli", "compiler.tools.opt", "emulator.cli", "tx8_entry.commands"):
        import_module(name)
    import numpy as np

    import tx8

    run = tx8.assemble(_PROGRAM).run(np.ones((16, 64)))
    assert run.cycles > 0 and run.hazards == ()
    graph = tx8.GraphBuilder("loaded")
    graph.output(graph.Softmax(graph.input("x", "float32", (4, 8))))
    tx8.compile(graph)


def main(address: str) -> int:
    """Serve calls at an address until standard input ends."""
    sys.path[0] = str(Path(sys.executable).parent)  # as the installed commands have it
    _load()
    gc.collect()
    gc.freeze()
    server = _Server(address)
    print("ready", flush=True)
    server.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
