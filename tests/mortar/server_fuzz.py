#!/usr/bin/env python3
"""Requests that schemathesis makes of /openapi.json find no 500 and no answer that the description does not have.

usage: server_fuzz.py MORTAR MODELS TEMPLATES [--examples N] [--seed N]

Answers are limited to a few tokens by the size of the context. Returns 77 (skipped) where schemathesis is not installed;
MORTAR_REQUIRE_CLIENTS=1 makes that a failure.
"""
import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import serving


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mortar")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("templates", type=pathlib.Path)
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if importlib.util.find_spec("schemathesis") is None:
        print("skipped: schemathesis is not installed; scripts/test.sh --full installs it")
        return 1 if os.environ.get("MORTAR_REQUIRE_CLIENTS") == "1" else 77
    serving.use(options.mortar, options.models, options.templates)
    serving.CONTEXT = 320  # a prompt and few tokens: an answer without max_tokens takes what the context leaves
    with tempfile.TemporaryDirectory() as folder:
        server = serving.Server(serving.make_model(pathlib.Path(folder) / "small"), "--batch-size", 4)
        command = [sys.executable, "-m", "schemathesis.cli", "run", server.url + "/openapi.json", "--max-examples", str(options.examples),
                   "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                   "--phases", "fuzzing", "--seed", str(options.seed), "--request-timeout", "60", "--no-color", "--workers", "2",
                   "--no-shrink", "--suppress-health-check", "all", "--warnings", "off", "--generation-database", "none", "--max-failures", "5"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        code, errors = server.stop()
    if done.returncode != 0 or code != 0 or errors or "No test cases were generated" in done.stdout:
        print(done.stdout[-8000:], done.stderr[-2000:], f"the server ended with {code}: {errors}")
        return 1
    print(done.stdout[-1200:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
