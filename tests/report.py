"""Counts what passed and what failed, and says so while the suites run."""

import sys
import time


class Report:
    """Results of one run. Every check is counted once, by [`Report.ok`] or [`Report.fail`]."""

    def __init__(self, stream=sys.stdout, details=20):
        self.passed = 0
        self.failed = 0
        self.failures = []
        self._stream = stream
        self._details = details
        self._suite = ""
        self._start = time.monotonic()
        self._before = (0, 0)

    def suite(self, name):
        """Everything from here on belongs to suite `name`."""
        self._suite = name
        self._start = time.monotonic()
        self._before = (self.passed, self.failed)
        self.say(f"== {name}")

    def end(self):
        """Says how the suite went."""
        passed, failed = self.passed - self._before[0], self.failed - self._before[1]
        self.say(f"-- {self._suite}: {passed} passed, {failed} failed, {time.monotonic() - self._start:.1f} s")

    def say(self, text):
        print(text, file=self._stream, flush=True)

    def ok(self, count=1):
        self.passed += count

    def fail(self, name, details):
        """`details` says what was asked, what was expected and what came."""
        self.failed += 1
        self.failures.append((self._suite, name, details))
        shown = self.failed - self._before[1]
        if shown <= self._details:
            self.say(f"FAILED {self._suite}: {name}\n" + "\n".join(f"    {line}" for line in details.splitlines()))
        elif shown == self._details + 1:
            self.say(f"FAILED {self._suite}: more failures follow; they are counted but not shown")

    def add(self, passed, failed):
        """Counts what a report elsewhere has counted and shown."""
        self.passed += passed
        self.failed += failed

    def check(self, name, difference):
        """Passed where `difference` is None or empty, else failed for that reason."""
        if difference:
            self.fail(name, difference)
        else:
            self.ok()

    def finish(self):
        """The last line and the exit status."""
        self.say(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0
