"""When one build counts as slower than the other, and how noisy times are compared.

The unit is a session: both builds allocate their tensors anew, elsewhere in memory, and are timed in eight batches in the
order ABBAABBA, so that a drift of the clocks cancels. Its ratio is the median of B's times by the median of A's.

There are two stages. In the first each case has a few sessions in the same memory; only cases whose median ratio is above
half of the margin go on. In the second they are measured afresh, in SESSIONS sessions of which a part has new processes.
The verdict uses the second stage alone, so it does not matter how the first one has selected.

    slower: the lower confidence bound of the median of the ratios is above 1 + margin

The bound is an order statistic (a sign test), which assumes nothing about the distribution of noise. Its level is RUN_ALARMS
divided by the number of all cases, so that a run with two equal builds fails with a probability below RUN_ALARMS.

    decision.py --selftest [--runs N]      simulates runs with drift, clock changes and outliers
"""

import argparse
import dataclasses
import math
import random
import statistics
import sys

ORDER = "ABBAABBA"
SCREEN_SESSIONS = 5
SESSIONS = 24
RESTARTS = 2  # the sessions of the second stage are in this many pairs of processes
RUN_ALARMS = 0.01  # the probability that a run of two equal builds fails
MARGIN = 0.02  # a loss that is not worth an alarm, and that other addresses of the same tensors can cause
LEAST_MICROSECONDS = 0.15  # the same for short kernels


def margin_of(microseconds):
    """As a share of the time of one launch."""
    return max(MARGIN, LEAST_MICROSECONDS / microseconds)


def bound_rank(count, alpha):
    """k of the k-th smallest of `count` numbers that is a lower bound of their median with probability 1 - alpha; 0: none."""
    total, rank = 0.0, 0
    for i in range(count):
        total += math.comb(count, i) / 2**count
        if total > alpha:
            break
        rank = i + 1
    return rank


def lower_bound(ratios, alpha):
    rank = bound_rank(len(ratios), alpha)
    return sorted(ratios)[rank - 1] if rank > 0 else 0.0


def upper_bound(ratios, alpha):
    return 1 / lower_bound([1 / r for r in ratios], alpha) if bound_rank(len(ratios), alpha) else math.inf


def session_ratio(times):
    """`times`: those of a session, in ORDER, or of several in turn."""
    sides = {"A": [], "B": []}
    for i, t in enumerate(times):
        sides[ORDER[i % len(ORDER)]].append(t)
    return statistics.median(sides["B"]) / statistics.median(sides["A"])


def is_suspect(screen, margin):
    """Whether the ratios of the first stage call for the second one."""
    return statistics.median(screen) > 1 + margin / 2


@dataclasses.dataclass
class Verdict:
    ratio: float  # median
    low: float
    high: float
    slower: bool


def decide(ratios, margin, cases):
    """`ratios`: those of the second stage, new by old; `cases`: how many the run has."""
    alpha = RUN_ALARMS / max(cases, 1)
    low, high = lower_bound(ratios, alpha), upper_bound(ratios, alpha)
    return Verdict(statistics.median(ratios), low, high, low > 1 + margin)


# -- a simulated GPU -----------------------------------------------------------------------------------------------------


class Gpu:
    """Times of batches with everything that was seen on GPUs, and more of it: a drift, two states of the clocks, heavy tails
    (Student's t with 3 degrees of freedom), interruptions, and a speed that depends on the addresses of the tensors and on the
    process."""

    def __init__(self, rng, noise=0.006, memory=0.004, process=0.003):
        self.rng, self.noise, self.memory, self.process_spread = rng, noise, memory, process
        self.clock, self.drift, self.time = 1.0, rng.uniform(-3e-5, 3e-5), 0
        self.process = {"A": 0.0, "B": 0.0}
        self.place = {"A": 0.0, "B": 0.0}

    def restart(self):
        self.process = {who: self.rng.gauss(0, self.process_spread) for who in "AB"}

    def allocate(self):
        self.place = {who: self.rng.gauss(0, self.memory) for who in "AB"}

    def batch(self, who, true):
        r = self.rng
        self.time += 1
        if r.random() < 0.02:
            self.clock = 1.0 if self.clock > 1 else 1.06
        if r.random() < 0.01:
            self.drift = r.uniform(-3e-5, 3e-5)
        tail = r.gauss(0, 1) / math.sqrt(r.gammavariate(1.5, 2 / 3))  # t with 3 degrees of freedom
        interrupted = 1 + r.expovariate(1 / 0.2) if r.random() < 0.02 else 1
        slow = 1 + self.process[who] + self.place[who] + self.drift * (self.time % 400)
        return true * self.clock * slow * max(0.5, 1 + self.noise * tail) * interrupted

    def session(self, true):
        return session_ratio([self.batch(who, true[who]) for who in ORDER])


def simulate_case(gpu, microseconds, loss, cases):
    """The verdict for one case: None if the first stage finds nothing."""
    true = {"A": microseconds, "B": microseconds * (1 + loss)}
    margin = margin_of(microseconds)
    gpu.allocate()
    if not is_suspect([gpu.session(true) for _ in range(SCREEN_SESSIONS)], margin):
        return None
    ratios = []
    for _ in range(RESTARTS):
        gpu.restart()
        for _ in range(SESSIONS // RESTARTS):
            gpu.allocate()
            ratios.append(gpu.session(true))
    return decide(ratios, margin, cases)


def simulated_run(rng, cases=200):
    """Whether a run of two equal builds fails."""
    gpu = Gpu(rng)
    gpu.restart()
    for _ in range(cases):
        verdict = simulate_case(gpu, math.exp(rng.uniform(math.log(4), math.log(1000))), 0, cases)
        if verdict is not None and verdict.slower:
            return True
    return False


def power(rng, microseconds, loss, cases=200, trials=300):
    found = 0
    for _ in range(trials):
        gpu = Gpu(rng)
        gpu.restart()
        verdict = simulate_case(gpu, microseconds, loss, cases)
        found += verdict is not None and verdict.slower
    return found / trials


def selftest(runs):
    # 24 numbers: P(at most 2 of 24 coins) = 1.8e-5, P(at most 3) = 1.4e-4.
    assert bound_rank(24, 5e-5) == 3 and bound_rank(24, 2e-4) == 4 and bound_rank(10, 5e-5) == 0
    assert lower_bound([1.0, 3.0, 2.0] * 8, 5e-5) == 1.0 and upper_bound([1.0, 3.0, 2.0] * 8, 5e-5) == 3.0
    assert session_ratio([1, 2, 2, 1, 1, 2, 2, 1]) == 2.0
    assert abs(session_ratio([1.00, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07]) - 1) < 1e-9, "a drift cancels"
    rng = random.Random(20261128)
    alarms = sum(simulated_run(rng) for _ in range(runs))
    assert alarms <= max(1, 0.01 * runs), f"{alarms} of {runs} runs of two equal builds fail"
    powers = {(us, loss): power(rng, us, loss) for us, loss in ((20, 0.05), (200, 0.05), (20, 0.08), (5, 0.10))}
    for (us, loss), share in powers.items():
        assert share > 0.9, f"a loss of {loss:.0%} in {us} us is found in {share:.0%} of the runs"
    small = power(rng, 200, 0.015)
    assert small < 0.05, f"a loss below the margin raises an alarm in {small:.0%} of the runs"
    text = ", ".join(f"{loss:.0%} of {us} us {share:.1%}" for (us, loss), share in powers.items())
    print(f"{alarms} of {runs} runs of two equal builds fail; found: {text}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("--runs", type=int, default=60)
    options = parser.parse_args()
    if not options.selftest:
        parser.error("--selftest is what this file does alone")
    return selftest(options.runs)


if __name__ == "__main__":
    sys.exit(main())
