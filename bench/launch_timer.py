#!/usr/bin/env python3
"""How long calls take on a GPU, without what they cost the host.

    other = torch.empty(128 << 20, dtype=torch.int32, device="cuda")
    timer = LaunchTimer(torch.cuda, other.max)          # the second empties level 2 before each call
    timer.milliseconds([backward], 20)[0]               # 20 times of one call
    timer.milliseconds([ours, peers], 20)               # of two that alternate

A call is timed by two events of its stream. Where the GPU reaches the first of them before the host has queued all of the call, the time holds
the host's work: a backward pass through autograd queues its kernels 50 to 300 us after it begins. Then all calls are timed again behind a kernel
that spins before level 2 is emptied, and spins longer each time, until the host is done with every call before the GPU begins it. A call that
waits for the GPU itself cannot be timed so, and is an error.

launch_timer.py --self-test: on a simulated GPU.
"""
import argparse

FIRST_SPIN = 1 << 18        # cycles of the GPU's clock: about 130 us
LONGEST_SPIN = 1 << 31      # about a second


class LaunchTimer:
    def __init__(self, cuda, empty):
        """`cuda` is torch.cuda; `empty` queues what empties level 2, or does nothing."""
        self.cuda, self.empty, self.spin = cuda, empty, 0

    def milliseconds(self, calls, count):
        """For each of the calls, which alternate, its `count` times."""
        while True:
            times = self._round(calls, count)
            if times is not None:
                return times
            if self.spin >= LONGEST_SPIN:
                raise RuntimeError("a call waits for the GPU, so that its time on the GPU cannot be told from the host's")
            self.spin = max(2 * self.spin, FIRST_SPIN)

    def _round(self, calls, count):
        """None where the GPU came to some call before the host had queued it."""
        events, queued = [[] for _ in calls], True
        for _ in range(count):
            for call, of_call in zip(calls, events):
                begin, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
                if self.spin:
                    self.cuda._sleep(self.spin)
                self.empty()
                begin.record()
                call()
                end.record()
                queued = queued and not begin.query()
                of_call.append((begin, end))
        self.cuda.synchronize()
        return [[begin.elapsed_time(end) for begin, end in of_call] for of_call in events] if queued else None


class SimulatedCuda:
    """A host and a GPU with one queue, in milliseconds. Launching takes 0.005, a cycle 1 / 2e6."""

    def __init__(self):
        self.host = self.gpu = 0.0

    def launch(self, duration, host=0.005):
        self.host += host
        self.gpu = max(self.gpu, self.host) + duration

    def _sleep(self, cycles):
        self.launch(cycles / 2e6)

    def synchronize(self):
        self.host = max(self.host, self.gpu)

    def Event(self, enable_timing):
        cuda = self

        class Event:
            def record(self):
                cuda.launch(0.0)
                self.at = cuda.gpu

            def query(self):
                return cuda.host >= self.at

            def elapsed_time(self, end):
                return end.at - self.at
        return Event()


def self_test():
    def timed(host, durations, empty):
        cuda = SimulatedCuda()
        timer = LaunchTimer(cuda, lambda: cuda.launch(empty))

        def call():
            for duration in durations:
                cuda.launch(duration, host)
        times, = timer.milliseconds([call], 5)
        return times, timer.spin
    near = lambda times, expected: len(times) == 5 and all(abs(time - expected) < 1e-9 for time in times)
    # Three kernels that the host takes 0.1 ms each to launch, while the GPU empties level 2 in 0.06.
    cuda = SimulatedCuda()
    begin, end = cuda.Event(True), cuda.Event(True)
    cuda.launch(0.06)
    begin.record()
    for _ in range(3):
        cuda.launch(0.05, 0.1)
    end.record()
    assert end.at - begin.at > 0.29, "the simulation hides the host by itself"
    times, spin = timed(0.1, [0.05] * 3, 0.06)
    assert near(times, 0.15) and spin, (times, spin)
    # What is queued in time needs no spinning kernel.
    times, spin = timed(0.005, [0.05] * 3, 0.06)
    assert near(times, 0.15) and not spin, (times, spin)
    # Two that alternate have times of their own.
    cuda = SimulatedCuda()
    timer = LaunchTimer(cuda, lambda: cuda.launch(0.06))
    a, b = timer.milliseconds([lambda: cuda.launch(0.2, 0.3), lambda: cuda.launch(0.1)], 5)
    assert near(a, 0.2) and near(b, 0.1), (a, b)
    # One that waits for the GPU.
    try:
        timer.milliseconds([cuda.synchronize], 2)
    except RuntimeError as error:
        assert str(error) == "a call waits for the GPU, so that its time on the GPU cannot be told from the host's", error
    else:
        raise AssertionError("a call that waits was timed")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--self-test", action="store_true", required=True)
    arguments.parse_args()
    self_test()
