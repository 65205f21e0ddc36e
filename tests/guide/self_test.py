#!/usr/bin/env python3
"""What guide_test.py takes for the same, and what not."""
import unittest

from guide_test import difference, read_guide, same, updated, write_guide


class Guide(unittest.TestCase):
    def test_lines(self):
        self.assertTrue(same("  plan   64 x 128", "  plan 64 x 128"))
        self.assertFalse(same("  plan   64 x 128", "  plan 64 x 64"))
        self.assertTrue(same("compile 1577 ms: NVRTC 1535 ms", "compile 8 ms: NVRTC 0.1 ms"))
        self.assertFalse(same("compile 1577 ms: NVRTC 1535 ms", "compile 8 ms: LLVM 7 ms"))
        self.assertTrue(same("registers 255 per thread", "registers 168 per thread"))
        self.assertTrue(same("  error  o: rms 7.41e-06 (limit 1), row [0, 4]", "  error  o: rms 1 (limit 0.5), row [1, 0]"))
        self.assertTrue(same("%1 = tile.mma %18, %41 ... {name}   // S = Q K^T", "  %1 = tile.mma %18, %41 : <q 128> {name}"))
        self.assertTrue(same("return x;  // score:1", "return x;  // score:1"))
        self.assertFalse(same("a.c", "abc"))

    def test_outputs(self):
        self.assertIsNone(difference(["a", "b"], ["a", "b"]))
        self.assertEqual(difference(["a", "b"], ["a", "x", "b"]), "b")
        self.assertIsNone(difference(["a", "...", "b"], ["a", "x", "b"]))
        self.assertEqual(difference(["a", "...", "b"], ["a", "x", "b", "c"]), "(the end; printed is: c)")
        self.assertIsNone(difference(["a", "..."], ["a", "x"]))
        self.assertEqual(difference(["...", "b", "a", "..."], ["a", "b"]), "a")
        self.assertEqual(difference([], ["error: x"]), "(the end; printed is: error: x)")
        self.assertEqual(difference(["a"], []), "a")

    def test_update(self):
        self.assertEqual(updated(["...", "  plan 64 x 128, 4 warps  // tiles", "..."], ["top", "  plan 64 x 48, 4 warps", "end"]),
                         ["...", "  plan 64 x 48, 4 warps  // tiles", "..."])
        self.assertEqual(updated(["  time 3 ms"], ["  time 4 ms"]), ["  time 3 ms"])
        self.assertEqual(updated(["  a = load %3, x..."], ["  a = load %5, x : type"]), ["  a = load %5, x..."])

    def test_guide(self):
        text = "# T\n\n    $ a \\\n      b\n    out\n      more\n    $ c\n\ntext\n\n    no command\n"
        pieces = read_guide(text)
        self.assertEqual([piece for piece in pieces if not isinstance(piece, str)], [["a \\\n  b", ["out", "  more"]], ["c", []]])
        self.assertEqual(write_guide(pieces), text)


if __name__ == "__main__":
    unittest.main()
