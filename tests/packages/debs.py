"""The .deb packages, installed into an empty root, used there and removed: debs.py [--work FOLDER] [--build BUILD] [--cmake WORD]...
FOLDER_OF_DEBS. With --build the packages are made first, from that build tree and without compression."""
import argparse
import glob
import os
import re
import shutil

from common import ROOT, check_commands, check_consumer, check_documents, emptied, expect, files_under, run, version

NAMES = ("libmortar-dev", "libtessera-dev", "mortar", "tessera")


def as_root():
    """What runs a command as root, or as one who seems to be root."""
    return [] if os.getuid() == 0 else ["fakeroot"] if shutil.which("fakeroot") else ["unshare", "--map-root-user"]


def dpkg(root, *words):
    """dpkg for another root. The packages of the system itself are not in it, so their absence does not count."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return run(*as_root(), "dpkg", f"--root={root}", "--force-depends", "--force-not-root", *words, env=dict(os.environ, PATH=path))


def control(deb, field):
    return run("dpkg-deb", "--field", deb, field).strip()


def check_dependencies(debs):
    with open(os.path.join(ROOT, "packaging/changelog"), encoding="utf-8") as file:
        expect(file.readline().startswith(f"tessera ({version()}) "), f"packaging/changelog does not begin with {version()}")
    for name, deb in debs.items():
        expect(control(deb, "Version") == version(), f"{deb} has the version {control(deb, 'Version')}")
        depends = control(deb, "Depends")
        if name in ("tessera", "mortar"):  # as dpkg-shlibdeps reads them
            for library in ("libc6", "libstdc++6", *(["libssl3", "libedit2"] if name == "mortar" else [])):
                expect(re.search(rf"(^|, ){re.escape(library)}(t64)? \(>=", depends), f"{name} depends on {depends}: {library} is missing")
    same = f"libtessera-dev (= {version()})"
    expect(same in control(debs["libmortar-dev"], "Depends"), f"libmortar-dev does not depend on {same}")


def make(build, folder):
    emptied(folder)
    run("cpack", "--config", os.path.join(build, "CPackConfig.cmake"), "-G", "DEB", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none",
        "-B", folder, cwd=folder)
    shutil.rmtree(os.path.join(folder, "_CPack_Packages"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--build")
    parser.add_argument("--cmake", action="append", default=[])
    parser.add_argument("folder")
    args = parser.parse_args()
    if args.build:
        make(os.path.abspath(args.build), os.path.abspath(args.folder))
    debs = {os.path.basename(p).split("_")[0]: p for p in glob.glob(os.path.join(args.folder, "*.deb"))}
    expect(tuple(sorted(debs)) == NAMES, f"expected packages {NAMES}, found {sorted(debs)}")
    check_dependencies(debs)
    work = os.path.abspath(args.work)
    root = emptied(os.path.join(work, "root"))
    for name in ("info", "updates", "triggers", "parts", "alternatives"):
        os.makedirs(os.path.join(root, "var/lib/dpkg", name))
    open(os.path.join(root, "var/lib/dpkg/status"), "w", encoding="utf-8").close()
    dpkg(root, "--install", *debs.values())
    prefix = os.path.join(root, "usr")
    check_documents(prefix)
    check_commands(prefix)
    check_consumer(prefix, os.path.join(work, "consumer"), *args.cmake)
    dpkg(root, "--purge", *debs)
    left = [p for p in files_under(root) if not p.startswith(os.path.join(root, "var/lib/dpkg/"))]
    folders = [name for name in os.listdir(root) if name != "var"]
    expect(not left and not folders, f"left after removing the packages: {left or folders}")
    if args.build:
        shutil.rmtree(args.folder)
    shutil.rmtree(root)


main()
