"""The caches of the tests of the native layer."""

from __future__ import annotations

import os

import pytest

from emulator import native


@pytest.fixture(scope="module", autouse=True)
def module_cache(tmp_path_factory):
    """All kernels of this file share one fresh cache, so nothing depends on earlier runs."""
    before = os.environ.get("TX8_CACHE_DIR")
    os.environ["TX8_CACHE_DIR"] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ["TX8_CACHE_DIR"]
    else:
        os.environ["TX8_CACHE_DIR"] = before


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder and no kernel loaded."""
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "_loaded", {})
    return tmp_path / "cache" / "kernels-v2"
