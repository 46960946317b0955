"""What the structure tests share: the files of the project, and how a failure is reported."""
import datetime
import os
import subprocess
import sys
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
SKIP_FOLDERS = {".git", "build", "install", ".cache", "__pycache__"}


def files(*suffixes):
    """Paths, relative to the root, of the project's files with one of these suffixes (all files without suffixes)."""
    try:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                                text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive has no git
        listed = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [f for f in folders if f not in SKIP_FOLDERS and not f.startswith("build-")]
            listed += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names]
    return sorted(p for p in set(listed) if p and (not suffixes or p.endswith(suffixes)) and os.path.isfile(os.path.join(ROOT, p)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def of_today(paths, share, day=None):
    """Every `share`-th of the paths, others every day: after `share` days each has had its turn, wherever the project lies."""
    day = datetime.date.today().toordinal() if day is None else day
    return [p for p in paths if (zlib.crc32(os.path.relpath(p, ROOT).encode()) + day) % share == 0]


def finish(problems, advice):
    """Prints the problems and exits accordingly."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"\n{len(problems)} found. {advice}")
    sys.exit(1 if problems else 0)


def unequal(found, expected):
    """For self-tests: what differs, as problems."""
    return [f"not found: {e}" for e in expected if e not in found] + [f"found though it is right: {f}" for f in found if f not in expected]
