#!/usr/bin/env python3
"""check_wheel.py --build BUILD --source SOURCE: the wheel, in a virtual environment of its own, runs README's lines.

The wheel is built as `pip wheel .` builds it, against what BUILD installs, so that no compiler is compiled again.
"""
import argparse
import os
import pathlib
import re
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "package"))
from command import run  # noqa: E402

try:
    import auditwheel  # noqa: F401
    import scikit_build_core  # noqa: F401
except ImportError:
    print("scikit-build-core or auditwheel is missing: pip install -r python/requirements.txt")
    sys.exit(77)

GLIBC_MINOR = 35  # of glibc 2

PROGRAM = """
import numpy
B, H, S, D = 1, 8, 300, 128
q, k, v, do = (numpy.random.default_rng(i).standard_normal((B, H, S, D), dtype=numpy.float32) for i in range(4))
{snippet}
s = q.astype(float) @ k.swapaxes(2, 3) / D**0.5
i, j = numpy.ogrid[:S, :S]
x = numpy.where((i >= j) & (i - j < 128), 50 * numpy.tanh(s / 50) + slopes[:, None, None] * (j - i), -numpy.inf)
p = numpy.exp(x - x.max(-1, keepdims=True))
assert numpy.abs(o - p / p.sum(-1, keepdims=True) @ v).max() < 1e-4
assert gradients.captured["slopes"].shape == slopes.shape
print("ok", attune.__file__)
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    given = parser.parse_args()
    source = given.source.resolve()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        run(["cmake", "--install", given.build, "--prefix", work / "prefix"])
        # pip asks for isolation from the registry, which a test must not need.
        run([sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation", "-w", work, "--config-settings", f"build-dir={work / 'build'}",
             "--config-settings", f"cmake.define.CMAKE_PREFIX_PATH={work / 'prefix'}"], env=environment)
        wheel = next(work.glob("attune_kernels-*.whl"))
        names = sorted(zipfile.ZipFile(wheel).namelist())
        expected = r"attune/((torch/)?\w+\.py|_core\.[\w.-]*so|libattune\.so\.0)|attune_kernels-[\w.]+\.dist-info/.*"
        foreign = [name for name in names if not re.fullmatch(expected, name)]
        if foreign or "attune/libattune.so.0" not in names:
            sys.exit(f"{wheel.name} holds {names}")
        notices = [name for name in names if name.endswith(("/LICENSE", "/THIRD_PARTY.md"))]
        if len(notices) != 2:
            sys.exit(f"{wheel.name} has the notices {notices}, not LICENSE and THIRD_PARTY.md")
        if wheel.stat().st_size > 40 * 2**20:
            sys.exit(f"{wheel.name} has {wheel.stat().st_size} bytes, more than 40 MiB")
        # The oldest systems that it runs on; another compiler's library may ask for newer ones.
        shown = run([sys.executable, "-m", "auditwheel", "show", wheel])
        tag = re.search(r'platform tag:\s+"manylinux_2_(\d+)_', shown)
        if not tag or int(tag.group(1)) > GLIBC_MINOR:
            sys.exit(f"{wheel.name} is not for manylinux_2_{GLIBC_MINOR}:\n{shown}")
        run([sys.executable, "-m", "venv", "--without-pip", work / "env"])
        packages = next((work / "env" / "lib").glob("python3*/site-packages"))
        run([sys.executable, "-m", "pip", "install", "--no-deps", "--target", packages, wheel], env=environment)
        snippet = re.search(r"^```python\n(import attune\n.*?)^```", (source / "README.md").read_text(), re.M | re.S).group(1)
        import numpy
        environment["PYTHONPATH"] = str(pathlib.Path(numpy.__file__).parents[1])  # NumPy alone is this environment's
        program = work / "readme.py"
        program.write_text(PROGRAM.format(snippet=snippet))
        output = run([work / "env" / "bin" / "python", program], env=environment, cwd=work)
        if not output.startswith(f"ok {packages}"):
            sys.exit(f"README's lines print {output}")
        version = run([work / "env" / "bin" / "python", "-c", "import attune; print(attune.__version__)"], env=environment, cwd=work).strip()
        if not wheel.name.startswith(f"attune_kernels-{version}-"):
            sys.exit(f"{wheel.name} holds version {version}")
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")


main()
