"""The OpenManus classes: what programs written for them rely on."""

import asyncio
import io
import os
import tarfile

import glovebox
import pytest
from conftest import BINARY
from glovebox.local import LocalService
from glovebox.openmanus import (
    AsyncDockerizedTerminal,
    DockerSandbox,
    LocalSandboxClient,
    NormalPythonExecute,
    PythonExecute,
    SandboxError,
    SandboxManager,
    SandboxResourceError,
    SandboxSettings,
    SandboxTimeoutError,
    create_sandbox_client,
)
from glovebox.openmanus.sandbox import unpack


@pytest.fixture(autouse=True)
def environment(service, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_URL", service.url)


def wait(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 240))


def test_settings():
    made = SandboxSettings()
    assert (made.use_sandbox, made.image, made.work_dir, made.memory_limit, made.cpu_limit,
            made.timeout, made.network_enabled) == (
        False, "python:3.12-slim", "/workspace", "512m", 1.0, 300, False)
    assert issubclass(SandboxTimeoutError, SandboxError)
    assert issubclass(SandboxResourceError, SandboxError)


# ---- tools ----


@pytest.mark.parametrize("code, options, observation, success", [
    ("print('hi')\n5", {"timeout": 60}, "hi\n", True),
    ("1 / 0", {"timeout": 60}, "division by zero", False),
    ("print('a'); 1 / 0", {"timeout": 60}, "a\ndivision by zero", False),
    ("def f(): return g()\ndef g(): return 7\nprint(f())", {"timeout": 60}, "7\n", True),
    ("import time; time.sleep(60)", {"timeout": 1}, "Execution timeout after 1 seconds", False),
])
def test_python_execute(code, options, observation, success):
    made = wait(PythonExecute().execute(code, **options))
    assert made == {"observation": observation, "success": success}


def test_tools_know_themselves():
    made = wait(NormalPythonExecute()(code="print(1)", code_type="report", timeout=60))
    assert made == {"observation": "1\n", "success": True}
    about = NormalPythonExecute().to_param()["function"]
    assert about["name"] == "python_execute" and "code_type" in about["parameters"]["properties"]
    refused = wait(PythonExecute().execute("1", timeout=10**6))
    assert not refused["success"] and "timeout" in refused["observation"]


def test_a_tool_without_a_service(tmp_path):
    client = glovebox.Client(f"unix:{tmp_path}/x")
    assert not wait(PythonExecute(client).execute("1"))["success"]


# ---- a sandbox ----


def test_one_shell():
    async def main():
        async with DockerSandbox() as sandbox:
            await sandbox.run_command("cd /tmp && export A='b c'")
            assert await sandbox.run_command('echo "$A"; pwd') == "b c\n/tmp"
            assert await sandbox.run_command("echo out; echo err >&2; false") == "out\nerr"
            with pytest.raises(SandboxTimeoutError, match="timed out after 1 seconds"):
                await sandbox.run_command("sleep 60", timeout=1)
            assert await sandbox.run_command("echo still here") == "still here"
            await sandbox.run_command("exit 3")
            assert await sandbox.run_command("pwd; echo err >&2") == "/workspace\nerr"
        with pytest.raises(RuntimeError, match="Sandbox not initialized"):
            await sandbox.run_command("true")

    wait(main())


def test_before_create():
    async def main():
        sandbox = DockerSandbox()
        for call in (sandbox.run_command("x"), sandbox.read_file("x"), sandbox.write_file("x", ""),
                     sandbox.copy_from("x", "y"), sandbox.copy_to(__file__, "y")):
            with pytest.raises(RuntimeError, match="^Sandbox not initialized$"):
                await call
        await sandbox.cleanup()

    wait(main())


def test_files():
    async def main():
        async with DockerSandbox(SandboxSettings(work_dir="/workspace/job")) as sandbox:
            await sandbox.write_file("deep/er/a.txt", "text é")
            assert await sandbox.read_file("deep/er/a.txt") == "text é"
            assert await sandbox.read_file("/workspace/job/deep/er/a.txt") == "text é"
            assert await sandbox.run_command("cat deep/er/a.txt") == "text é"
            await sandbox.write_file("/tmp/new/b.txt", "outside")
            assert await sandbox.read_file("/tmp/new/b.txt") == "outside"
            assert "root" in await sandbox.read_file("/etc/passwd")
            assert await sandbox.run_command("ls -A /workspace") == "job"
            for path in ("nope", "/tmp/nope", "/nope/x"):
                with pytest.raises(FileNotFoundError, match=f"^File not found: {path}$"):
                    await sandbox.read_file(path)
            for path in ("../x", "a/../../b", "/workspace/../etc/passwd"):
                with pytest.raises(ValueError, match="unsafe"):
                    await sandbox.read_file(path)
                with pytest.raises(ValueError, match="unsafe"):
                    await sandbox.write_file(path, "")
                with pytest.raises(ValueError, match="unsafe"):
                    await sandbox.copy_from(path, "/tmp/x")
                with pytest.raises(ValueError, match="unsafe"):
                    await sandbox.copy_to(__file__, path)
            for path in ("", "a\0b"):
                with pytest.raises(ValueError):
                    await sandbox.read_file(path)
            await sandbox.write_file("it's; rm -rf $HOME", "quoted")
            assert await sandbox.read_file("it's; rm -rf $HOME") == "quoted"
            await sandbox.run_command("printf '\\377' > raw; mkdir d")
            for path in ("raw", "d"):
                with pytest.raises(RuntimeError, match="Failed to read file"):
                    await sandbox.read_file(path)
            with pytest.raises(RuntimeError, match="Failed to write file"):
                await sandbox.write_file("/usr/x", "")

    wait(main())


def test_copies(tmp_path):
    async def main():
        tree = tmp_path / "tree"
        (tree / "sub").mkdir(parents=True)
        (tree / "empty").mkdir()
        (tree / "a.txt").write_text("a")
        (tree / "sub" / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (tree / "sub" / "run.sh").chmod(0o755)
        os.mkfifo(tree / "fifo")
        async with DockerSandbox() as sandbox:
            await sandbox.copy_to(str(tree / "a.txt"), "in/b.txt")
            assert await sandbox.read_file("in/b.txt") == "a"
            await sandbox.copy_to(str(tree / "a.txt"), "/workspace/in/")
            assert await sandbox.read_file("in/a.txt") == "a"
            await sandbox.copy_to(str(tree), "copy")
            assert await sandbox.run_command("ls copy; copy/sub/run.sh") == "a.txt\nempty\nsub\nran"
            await sandbox.copy_to(str(tree / "sub" / "run.sh"), "/tmp/run.sh")
            assert await sandbox.run_command("/tmp/run.sh") == "ran"

            await sandbox.copy_from("in/b.txt", str(tmp_path / "new" / "c.txt"))
            assert (tmp_path / "new" / "c.txt").read_text() == "a"
            await sandbox.copy_from("in/b.txt", str(tmp_path / "new"))
            assert (tmp_path / "new" / "b.txt").read_text() == "a"
            await sandbox.run_command("ln -s /etc/passwd copy/link")
            (tmp_path / "out").mkdir()
            await sandbox.copy_from("copy", str(tmp_path / "out"))
            back = tmp_path / "out" / "copy"
            assert sorted(p.name for p in back.iterdir()) == ["a.txt", "empty", "sub"]
            assert os.access(back / "sub" / "run.sh", os.X_OK)

            with pytest.raises(FileNotFoundError, match="Source file not found: nope"):
                await sandbox.copy_from("nope", str(tmp_path / "x"))
            with pytest.raises(FileNotFoundError, match="Source file not found"):
                await sandbox.copy_to(str(tmp_path / "nope"), "x")
            with pytest.raises(RuntimeError, match="directory but destination is a file"):
                await sandbox.copy_from("copy", str(tmp_path / "no-dir"))
            with pytest.raises(RuntimeError, match="Failed to copy file"):
                await sandbox.copy_to(str(tree / "a.txt"), "copy")
        assert not (tmp_path / "x").exists()

    wait(main())


def archive(*members):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, link, 0o6777
            tar.addfile(info)
    data.seek(0)
    return data


def test_hostile_archives(tmp_path):
    target = tmp_path / "t"
    for name in ("../x", "/x", "a/../../x"):
        with pytest.raises(OSError):
            unpack(archive((name, tarfile.REGTYPE, "")), str(target))
    unpack(archive(("l", tarfile.SYMTYPE, "/etc"), ("h", tarfile.LNKTYPE, "/etc/passwd"),
                   ("d", tarfile.CHRTYPE, ""), ("l/x", tarfile.REGTYPE, "")), str(target))
    assert sorted(p.name for p in target.rglob("*")) == ["l", "x"]
    assert not (target / "l").is_symlink()
    assert (target / "l" / "x").stat().st_mode & 0o7000 == 0
    (target / "out").symlink_to("/tmp")
    with pytest.raises(OSError):
        unpack(archive(("out/x", tarfile.REGTYPE, "")), str(target))
    assert not os.path.exists(tmp_path / "x")


@pytest.mark.parametrize("config, bindings, word", [
    (SandboxSettings(image="no-such:1"), None, "image"),
    (SandboxSettings(network_enabled=True), None, "network_enabled"),
    (SandboxSettings(work_dir="/app"), None, "work_dir"),
    (SandboxSettings(work_dir="/workspace/../etc"), None, "work_dir"),
    (SandboxSettings(memory_limit="lots"), None, "memory_limit"),
    (SandboxSettings(memory_limit="9999g"), None, "memory_limit"),
    (SandboxSettings(cpu_limit=-1), None, "cpu_limit"),
    (None, {"/data": "/workspace/data"}, "volume_bindings"),
    (None, {"data": "/workspace/data"}, "volume_bindings"),
    (None, {"/data": "/workspace/../etc"}, "volume_bindings"),
    (None, {"/data": {"bind": 5}}, "volume_bindings"),
    (None, {"/data": {"bind": "/data", "mode": "x"}}, "volume_bindings"),
    (None, {"/data": {"bind": "/data", "mode": 5}}, "volume_bindings"),
    (None, {"/data": "/" + "x" * 300}, "volume_bindings"),
    (None, ["/data"], "volume_bindings"),
    (SandboxSettings(network_enabled="yes"), None, "network_enabled"),
])
def test_settings_that_cannot_be_had_are_named(config, bindings, word):
    with pytest.raises(SandboxError, match=f"^{word}: "):
        wait(DockerSandbox(config, bindings).create())


def test_a_network_if_the_operator_permits_it():
    """Any public host through a proxy; the addresses of this machine are none."""
    code = ("import os, urllib.error, urllib.request\n"
            "try: urllib.request.urlopen('http://127.0.0.9/')\n"
            "except urllib.error.HTTPError as e: print(e.code, e.read().decode())")

    async def main(client):
        settings = SandboxSettings(network_enabled=True)
        async with DockerSandbox(settings, client=client) as sandbox:
            await sandbox.write_file("probe.py", code)
            assert "127.0.0.1:" in await sandbox.run_command("echo $HTTPS_PROXY")
            told = await sandbox.run_command("python3 probe.py")
            assert told.startswith("403 ") and "public" in told

    with LocalService(BINARY, ["--pool", "1", "--preload", "none", "--network-allow", "*"]) as running:
        with glovebox.Client(running.url) as client:
            wait(main(client))
            with client.session(network={"allow": ["pypi.org"]}) as session:
                assert session.info()["network"]["allow"] == ["pypi.org"]
            code = "import os; os.environ['HTTP_PROXY'].partition(':')[0]"
            assert client.run(code, network={"allow": ["pypi.org"]}).text == "'http'"
            with pytest.raises(glovebox.BadRequest, match="no host"):
                client.stream("1", network={"allow": ["no host"]})


# ---- directories of the host ----


class Place:
    def __init__(self, directory):
        self.sets, self.results = directory / "sets", directory / "results"
        self.sets.mkdir()
        self.results.mkdir()
        (self.sets / "a.txt").write_text("a set")
        (self.sets / "link").symlink_to("/etc")
        if os.getuid() == 0:  # boxes do not write to what is root's
            os.chown(self.results, 12345, 12345)
        self.options = ["--pool", "1", "--volume-root", str(self.sets), "--volume-root",
                        f"{self.results}:rw"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("volumes"))
    with LocalService(BINARY, made.options) as running, glovebox.Client(running.url) as client:
        made.client = client
        yield made


def test_bindings(place):
    bindings = {str(place.sets): "/data", str(place.results): "/workspace/results"}

    async def main():
        async with DockerSandbox(None, bindings, client=place.client) as sandbox:
            assert await sandbox.run_command("cat /data/a.txt") == "a set"
            assert await sandbox.read_file("/data/a.txt") == "a set"
            assert "Read-only" in await sandbox.run_command("touch /data/b 2>&1 || true")
            with pytest.raises(RuntimeError, match="Read-only"):
                await sandbox.write_file("/data/b.txt", "no")
            await sandbox.write_file("results/deep/r.txt", "a result")
            assert await sandbox.read_file("/workspace/results/deep/r.txt") == "a result"
            await sandbox.copy_to(str(place.sets / "a.txt"), "results/copy.txt")
            await sandbox.write_file("own.txt", "mine")
            assert await sandbox.read_file("own.txt") == "mine"

    wait(main())
    assert (place.results / "deep" / "r.txt").read_text() == "a result"
    assert (place.results / "copy.txt").read_text() == "a set"
    assert not (place.results / "own.txt").exists() and not (place.sets / "b.txt").exists()


def test_bindings_with_modes(place):
    bindings = {str(place.sets): {"bind": "/data", "mode": "ro,z"},
                str(place.results): {"bind": "/out", "mode": "rw"}}

    async def main():
        manager = SandboxManager(client=place.client)
        name = await manager.create_sandbox(None, bindings)
        async with manager.sandbox_operation(name) as sandbox:
            await sandbox.run_command("cp /data/a.txt /out/by-mode")
            volumes = (await sandbox.container.info())["volumes"]
        assert [v["mode"] for v in volumes] == ["ro", "rw"]
        await manager.cleanup()
        one = LocalSandboxClient(place.client)
        await one.create(None, {str(place.results): {"bind": "/out", "mode": "ro"}})
        assert await one.read_file("/out/by-mode") == "a set"
        assert "Read-only" in await one.run_command("touch /out/x 2>&1 || true")
        await one.cleanup()

    wait(main())


@pytest.mark.parametrize("source, target, word", [
    ("/etc", "/data", "operator"),
    ("{sets}/../..", "/data", "'..'"),
    ("{sets}/link", "/data", "link"),
    ("{sets}/none", "/data", "does not exist"),
    ("{sets}/a.txt", "/data", "not a directory"),
    ("{sets}", {"bind": "/data", "mode": "rw"}, "is read-only"),
    ("{sets}", "/etc/x", "box itself"),
    ("{sets}", "/workspace", "/workspace/data"),
])
def test_bindings_that_are_refused(place, source, target, word):
    bindings = {source.format(sets=place.sets): target}
    with pytest.raises(SandboxError, match=f"^volume_bindings: .*{word}"):
        wait(DockerSandbox(None, bindings, client=place.client).create())
    with pytest.raises(RuntimeError, match=f"Failed to create sandbox: volume_bindings: .*{word}"):
        wait(SandboxManager(client=place.client).create_sandbox(None, bindings))


def test_a_service_of_ones_own_takes_the_list_from_the_environment(place, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_VOLUME_ROOT", str(place.sets))
    with LocalService(BINARY, ["--pool", "1"]) as running, glovebox.Client(running.url) as client:
        volumes = [{"source": str(place.sets), "target": "/data"}]
        with client.session(volumes=volumes) as session:
            assert session.run("print(open('/data/a.txt').read())").stdout == "a set\n"
            assert session.info()["volumes"] == [{**volumes[0], "mode": "ro"}]


# ---- templates ----


@pytest.mark.parametrize("image", ["python:3.12-slim", "python:3.9", "python", "default", ""])
def test_image_is_a_template(image):
    """Names of Python's container images are aliases of the default template."""
    async def main():
        async with DockerSandbox(SandboxSettings(image=image)) as sandbox:
            return sandbox.container.id, await sandbox.run_command("echo fine")

    name, said = wait(main())
    assert said == "fine"
    with pytest.raises(glovebox.errors.GloveboxError):
        glovebox.Client().attach(name).run("1")


def test_unknown_image_lists_what_there_is():
    with pytest.raises(SandboxError, match="no such template: 'no-such:1'; available: system"):
        wait(DockerSandbox(SandboxSettings(image="no-such:1")).create())
    with pytest.raises(glovebox.errors.GloveboxError, match="available: system"):
        glovebox.Client().run("1", template="no-such:1")
    assert glovebox.Client().run("6 * 7", template="python:3").receipt["template"] == "system"


def test_a_sandbox_that_is_gone():
    async def main():
        async with DockerSandbox() as sandbox:
            glovebox.Client().attach(sandbox.container.id).close()
            with pytest.raises(SandboxError):
                await sandbox.run_command("true")
            with pytest.raises(SandboxError):
                await sandbox.read_file("x")

    wait(main())


def test_memory_of_a_sandbox_is_limited():
    async def main():
        async with DockerSandbox(SandboxSettings(memory_limit="100m")) as sandbox:
            with pytest.raises(SandboxResourceError):
                await sandbox.run_command("python3 -c 'x = bytearray(10**9); print(len(x))'")
            assert await sandbox.run_command("echo still here") == "still here"

    wait(main())


# ---- a terminal ----


def test_terminal(service):
    async def main():
        client = glovebox.AsyncClient()
        async with await client.session() as session:
            for container in (session, session.sync, session.id):
                terminal = AsyncDockerizedTerminal(container, "/workspace/t", {"A": "it's"}, 1)
                with pytest.raises(RuntimeError):
                    await terminal.run_command("true")
                async with terminal:
                    told = await terminal.run_command("pwd; echo $A", timeout=60)
                    assert told == "/workspace/t\nit's"
                    with pytest.raises(TimeoutError):
                        await terminal.run_command("sleep 60")
            assert (await session.info())["session_id"] == session.id
            for name in ("a b", "A;rm", "", "é"):
                with pytest.raises(ValueError):
                    await AsyncDockerizedTerminal(session, env_vars={name: "x"}).init()

    wait(main())


# ---- many sandboxes ----


def test_manager():
    async def main():
        manager = SandboxManager(max_sandboxes=2, idle_timeout=1000, cleanup_interval=1000)
        async with manager:
            first, second = await asyncio.gather(manager.create_sandbox(), manager.create_sandbox())
            with pytest.raises(RuntimeError, match=r"^Maximum number of sandboxes \(2\) reached$"):
                await manager.create_sandbox()
            sandbox = await manager.get_sandbox(first)
            assert await sandbox.run_command("echo 1") == "1"
            with pytest.raises(KeyError, match="Sandbox nope not found"):
                await manager.get_sandbox("nope")
            async with manager.sandbox_operation(second):
                assert manager.get_stats() == {
                    "total_sandboxes": 2, "active_operations": 1, "max_sandboxes": 2,
                    "idle_timeout": 1000, "cleanup_interval": 1000, "is_shutting_down": False}
            await manager.delete_sandbox(first)
            await manager.delete_sandbox(first)
            assert manager.get_stats()["total_sandboxes"] == 1
            with pytest.raises(RuntimeError, match="Failed to create sandbox: image: "):
                await manager.create_sandbox(SandboxSettings(image="no-such:1"))
            assert await manager.create_sandbox()
        assert manager.get_stats()["total_sandboxes"] == 0
        assert manager.get_stats()["is_shutting_down"]
        with pytest.raises(RuntimeError):
            await manager.create_sandbox()

    wait(main())


def test_idle_sandboxes_are_ended():
    async def main():
        async with SandboxManager(idle_timeout=0, cleanup_interval=0.05) as manager:
            manager.start_cleanup_task()
            sandbox_id = await manager.create_sandbox()
            while manager.get_stats()["total_sandboxes"]:
                await asyncio.sleep(0.02)
            with pytest.raises(KeyError):
                await manager.get_sandbox(sandbox_id)

    wait(main())


def test_manager_made_outside_of_a_loop():
    manager = SandboxManager(max_sandboxes=1)

    async def main():
        sandbox_id = await manager.create_sandbox()
        await manager.delete_sandbox(sandbox_id)

    wait(main())
    wait(main())
    wait(manager.cleanup())


# ---- the client ----


def test_local_sandbox_client(tmp_path):
    async def main():
        client = create_sandbox_client()
        assert isinstance(client, LocalSandboxClient)
        with pytest.raises(RuntimeError, match="^Sandbox not initialized$"):
            await client.run_command("true")
        await client.create(SandboxSettings(memory_limit="256m"))
        try:
            await client.write_file("a.txt", "text")
            assert await client.read_file("a.txt") == "text"
            assert await client.run_command("cat a.txt", timeout=60) == "text"
            await client.copy_from("a.txt", str(tmp_path / "a"))
            await client.copy_to(str(tmp_path / "a"), "b.txt")
            assert await client.read_file("b.txt") == "text"
        finally:
            await client.cleanup()
        with pytest.raises(RuntimeError):
            await client.read_file("a.txt")

    wait(main())
