"""Published weaknesses of ONNX readers, each as files that exploited them: kimi-compile and kimi-run end with a message,
show nothing of files outside the model's folder, and change none.

CVE-2022-25882, CVE-2024-27318, CVE-2025-51480: paths of external data that leave the folder (on reading, on writing);
CVE-2024-5187: archives unpacked over other files; CVE-2026-27489: symbolic links, in the middle of a path as well;
CVE-2026-34446: hard links; CVE-2026-34445 (GHSA-538c-55jv-c5g9): keys of external data that are taken for settings of the
reader; CVE-2026-28500: models fetched from elsewhere without a question."""
import os
import tarfile

import numpy as np
import onnx
import pytest
from conftest import run, tool
from onnx import TensorProto, helper

SECRET = np.arange(100, 1124, dtype=np.float32)  # 4 KiB: not taken into the graph


def external_model(path, location, count=2048, **keys):
    """y = x + w, the bytes of w in the file `location`."""
    w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[count], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **keys}.items():
        w.external_data.add(key=key, value=str(value))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [count]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"], "add")], "g", [x], [y], [w])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString())
    return path


@pytest.fixture
def home(tmp_path):
    """A model's folder with a file of weights; a secret beside the folder, not in it."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "w.bin").write_bytes(np.ones(2048, np.float32).tobytes())
    (tmp_path / "secret.bin").write_bytes(np.tile(SECRET, 2).tobytes())
    return folder


def refused(model, *flags):
    """Compiles, baking the bytes in: must fail with a message, leave no module and the secret as it was."""
    out, secret = model.parent / "out.kmod", model.parent.parent / "secret.bin"
    before = secret.read_bytes(), secret.stat().st_mtime_ns
    result = run(tool("kimi-compile"), model, "-o", out, "--bake", *flags, check=False, timeout=60)
    assert result.returncode == 1 and "error: " in result.stderr, result
    assert not out.exists() and (secret.read_bytes(), secret.stat().st_mtime_ns) == before
    return result.stderr


def test_the_model_itself_is_good(home):
    run(tool("kimi-compile"), external_model(home / "m.onnx", "w.bin"), "-o", home / "out.kmod", "--bake")
    run(tool("kimi-compile"), external_model(home / "m.onnx", "sub/../w.bin".replace("sub/../", "./")), "-o",
        home / "out.kmod", "--bake")


@pytest.mark.parametrize("location", ["../secret.bin", "sub/../../secret.bin", "sub/./..//../secret.bin", "./../secret.bin",
                                      "sub/../w.bin", "..", "sub/..", "/etc/passwd", "//etc/passwd"])
def test_paths_that_leave_the_folder(home, location):
    assert "initializer 'w'" in refused(external_model(home / "m.onnx", location))


def test_absolute_path_of_an_own_file(home):
    assert "is an absolute path" in refused(external_model(home / "m.onnx", str(home / "w.bin")))


def test_symbolic_links(home):
    (home / "link.bin").symlink_to("../secret.bin")
    (home / "inner.bin").symlink_to("w.bin")
    (home / "up").symlink_to("..")
    for location in ("link.bin", "inner.bin", "up/secret.bin"):
        assert "symbolic link" in refused(external_model(home / "m.onnx", location)), location


def test_hard_links(home):
    os.link(home.parent / "secret.bin", home / "hard.bin")
    assert "hard link" in refused(external_model(home / "m.onnx", "hard.bin"))


def test_files_that_are_none(home):
    os.mkfifo(home / "pipe")
    for location in ("pipe", "sub"):  # opening the pipe would wait for ever
        assert "is not a regular file" in refused(external_model(home / "m.onnx", location)), location


@pytest.mark.parametrize("key", ["__class__", "__dict__", "basepath", "offset ", "Location", ""])
def test_keys_that_are_no_keys(home, key):
    assert "is unknown" in refused(external_model(home / "m.onnx", "w.bin", **{key: "../secret.bin"}))


@pytest.mark.parametrize("keys", [{"offset": 4}, {"offset": 1 << 62}, {"offset": -8192}, {"length": 1 << 60}, {"length": 0},
                                  {"offset": "0x0"}, {"offset": ""}, {"length": "8192 "}])
def test_ranges_that_the_file_does_not_have(home, keys):
    assert "initializer 'w'" in refused(external_model(home / "m.onnx", "w.bin", **keys))


def test_more_elements_than_any_file(home):
    message = refused(external_model(home / "m.onnx", "w.bin", count=1 << 50))
    assert "ends at byte 4503599627370496" in message


def test_small_tensors_are_not_read_from_elsewhere_either(home):
    """Values that shapes are computed from are read while the model is imported."""
    path = external_model(home / "m.onnx", "../secret.bin", count=1)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].data_type = TensorProto.INT64
    del model.graph.node[:], model.graph.input[:]
    model.graph.node.append(helper.make_node("Expand", ["one", "w"], ["y"]))
    model.graph.initializer.append(helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]))
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path.write_bytes(model.SerializeToString())
    assert "leaves its folder" in refused(path)


def test_weights_that_became_links_after_compiling(home):
    """The module names the file again: what a reader refuses, the runtime refuses too."""
    module = home / "m.kmod"
    run(tool("kimi-compile"), external_model(home / "m.onnx", "w.bin"), "-o", module)
    np.save(home / "x.npy", np.zeros(2048, np.float32))
    command = [tool("kimi-run"), module, "--input", f"x={home / 'x.npy'}", "--output", home / "y.npy"]
    run(*command)
    for link in (os.symlink, os.link):
        (home / "w.bin").unlink()
        (home / "y.npy").unlink(missing_ok=True)
        link(home.parent / "secret.bin", home / "w.bin")
        result = run(*command, check=False)
        assert result.returncode == 1 and "link" in result.stderr and not (home / "y.npy").exists()


def test_archives_and_addresses_are_no_models(home):
    """Nothing is unpacked, and nothing is fetched."""
    evil = home / "evil.tar"
    with tarfile.open(evil, "w") as archive:
        archive.add(home / "w.bin", arcname="../secret.bin")
    refused(evil)
    for address in ("https://example.invalid/model.onnx", "file:///etc/passwd", "hub:resnet50"):
        result = run(tool("kimi-compile"), address, "-o", home / "out.kmod", check=False)
        assert result.returncode == 1 and "No such file" in result.stderr
