"""A user's file with one kernel compiles in 2.5 seconds of processor time (g++ 12, -O1, Tessera's development machine). The test
fails at twice that, so that a slower machine does not fail it and a heavy header does.

    compile_time.py <compiler> <source>
"""
import os
import resource
import subprocess
import sys

import tree

BUDGET = 2.5
compiler, source = sys.argv[1:]
times = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([compiler, "-std=c++20", "-O1", "-I" + os.path.join(tree.ROOT, "include"), "-c", os.path.join(tree.ROOT, source),
                    "-o", os.devnull], check=True, env=dict(os.environ, CCACHE_DISABLE="1"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
print(f"{source}: {min(times):.2f} s (budget {BUDGET} s, fails at {2 * BUDGET} s)")
tree.finish([f"{min(times):.2f} s"] if min(times) > 2 * BUDGET else [], "g++ -ftime-report and -H show which header grew.")
