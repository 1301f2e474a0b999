"""Packages through the client: from a directory of wheels, so that no index is needed."""

import asyncio
import base64
import hashlib
import os
import zipfile

import glovebox
import pytest
from conftest import BINARY
from glovebox.local import LocalService

WHEEL = "gbtoy-1.2-py3-none-any.whl"


def make_wheel(path):
    files = {"gbtoy.py": "version = '1.2'\n",
             "gbtoy-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: gbtoy\nVersion: 1.2\n",
             "gbtoy-1.2.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                          "Tag: py3-none-any\n"}
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{name},sha256={digest.decode()},{len(text)}\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("gbtoy-1.2.dist-info/RECORD", record)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A client of a service that installs from one directory and reaches nothing."""
    wheels = tmp_path_factory.mktemp("wheels")
    wheels.chmod(0o755)
    make_wheel(os.path.join(wheels, WHEEL))
    options = ["--pool", "1", "--preload", "none", "--index-url", "none", "--wheels", str(wheels)]
    with LocalService(BINARY, options) as running, glovebox.Client(running.url) as client:
        yield client


def test_into_a_session(shop):
    with shop.session() as session:
        made = session.pip_install("gbtoy>=1")
        assert made["success"] and made["installed"][0]["version"] == "1.2"
        assert session.run("import gbtoy\ngbtoy.version").text == "'1.2'"
        assert [p["name"] for p in session.packages()["packages"]] == ["gbtoy"]
        assert session.pip_uninstall("gbtoy")["removed"] == [{"name": "gbtoy", "version": "1.2"}]
        assert session.packages()["packages"] == []
        with pytest.raises(glovebox.NotFound, match="not installed"):
            session.pip_uninstall("gbtoy")
        with pytest.raises(glovebox.RequestError):
            session.pip_uninstall("../x")
    with shop.session(packages=["gbtoy>=1"]) as session:
        assert session.run("import gbtoy").success


def test_default_set_and_async(shop):
    async def work():
        async with glovebox.AsyncClient(shop.url) as client:
            assert (await client.pip_install("gbtoy"))["success"]
            assert (await client.run("import gbtoy")).success
            assert len((await client.packages())["packages"]) == 1
            assert (await client.pip_uninstall("gbtoy"))["success"]
            assert (await client.packages())["packages"] == []
            await client.reset_packages()
            assert not (await client.run("import gbtoy")).success

    asyncio.run(work())


def test_refusals(shop):
    with shop.session() as session:
        with pytest.raises(glovebox.BadRequest, match="not a requirement"):
            session.pip_install("x; rm -rf /")
        with pytest.raises(glovebox.BadRequest, match="no such package"):
            session.pip_install("gbnothere")
        with pytest.raises(glovebox.NotAllowed, match="blocked"):
            session.pip_install("os")
    with pytest.raises(glovebox.BadRequest):
        shop.session(packages=["../x"])
