"""Shared by the tests of packages: running commands, a consumer, what the commands must do."""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONSUMER = os.path.join(ROOT, "tests/packages/consumer")
KERNEL = os.path.join(ROOT, "tests/consumer/main.cpp")
ENGINE = os.path.join(CONSUMER, "engine.cpp")


def fail(message):
    sys.exit(f"FAILED: {message}")


def run(*words, code=0, **more):
    """What the command printed; fails unless it ends with `code`."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **more)
    if done.returncode != code:
        fail(f"{' '.join(words)} ended with {done.returncode}, expected {code}:\n{done.stdout}")
    return done.stdout


def expect(condition, message):
    if not condition:
        fail(message)


def emptied(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"^project\(tessera VERSION ([\d.]+)", file.read(), re.M)[1]


def files_under(folder):
    return sorted(os.path.join(where, name) for where, folders, names in os.walk(folder)
                  for name in [*names, *(f for f in folders if os.path.islink(os.path.join(where, f)))])


def check_documents(prefix):
    """The examples, and the file for coding agents as it is in docs/agents.md, whose code a test compiles."""
    folder = os.path.join(prefix, "share/doc/libtessera-dev")
    expect(os.path.isfile(os.path.join(folder, "examples/CMakeLists.txt")), f"{folder} has no examples")
    with open(os.path.join(ROOT, "docs/agents.md"), "rb") as page, open(os.path.join(folder, "AGENTS.md"), "rb") as installed:
        expect(page.read() == installed.read(), f"{folder}/AGENTS.md is not docs/agents.md")


def check_commands(prefix):
    """Both commands run, from where they are now."""
    for name in ("tessera", "mortar"):
        program = os.path.join(prefix, "bin", name)
        expect(run(program, "--version") == f"{name} {version()}\n", f"{program} --version")
        text = run(program, "--help")
        expect(("doctor" if name == "tessera" else "serve") in text, f"{program} --help:\n{text}")
        check_completion(prefix, name)
        check_manual(prefix, name)


def check_completion(prefix, name):
    path = os.path.join(prefix, "share/bash-completion/completions", name)
    offered = run("bash", "-c", f". '{path}'; COMP_WORDS=({name} bench --j) COMP_CWORD=2; _{name}; echo \"${{COMPREPLY[*]}}\"")
    expect(offered == "--json\n", f"{path} offers {offered!r} after `{name} bench --j`, expected --json")
    for shell, file in (("zsh", f"share/zsh/vendor-completions/_{name}"), ("fish", f"share/fish/vendor_completions.d/{name}.fish")):
        expect(os.path.isfile(os.path.join(prefix, file)), f"{file} is missing")
        if shutil.which(shell):
            run(shell, "-n", os.path.join(prefix, file))


def check_manual(prefix, name):
    found = [p for p in files_under(os.path.join(prefix, "share/man")) if os.path.basename(p).startswith(f"{name}.1")]
    expect(len(found) == 1, f"expected one manual page of {name}, found {found}")
    if shutil.which("man"):
        text = run("man", "--warnings", "-l", found[0], env=dict(os.environ, MANWIDTH="100", LC_ALL="C.UTF-8"))
        expect("COMMANDS" in text and "warning" not in text, f"man -l {found[0]}:\n{text[:2000]}")


def configure(prefix, work, *more):
    """Configures the consumer against the packages in `prefix`, and nothing else of these names."""
    text = run("cmake", "-S", CONSUMER, "-B", emptied(work), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *more)
    for package in ("tessera", "mortar"):
        found = re.search(rf"{package}: (.*)", text)
        expect(found and found[1].startswith(prefix + "/"), f"find_package({package}) found {found and found[1]}, expected it in {prefix}")


def check_consumer(prefix, work, *more):
    """Builds and runs a kernel, and programs of mortar::mortar and mortar::server."""
    configure(prefix, work, f"-DKERNEL={KERNEL}", f"-DENGINE={ENGINE}", *more)
    run("ninja", "-C", work)
    env = dict(os.environ, TESSERA_DEVICE="cpu")
    text = run(os.path.join(work, "kernel"), env=env)
    expect("Tensor<f32, 2> [1000, 1000] on" in text, f"the kernel printed\n{text}")
    for name in ("engine", "server"):
        text = run(os.path.join(work, name), env=env)
        expect(text.startswith("consumer: ") and "/nowhere" in text, f"{name} printed\n{text}")
