//===- Pages.h - Keys in pages, as launches take them --------------------------===//
//
//     HostTensor table = pageTable(batch, keys, 64, &lengths, seed);
//     HostTensor pages = toPages(k, table, 64, &lengths);      // k is [B, Hkv, Sk, D]
//
// What no sequence has holds NaN, and entries of the table behind a sequence's length are out of range: a kernel that
// reads them shows it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/reference/Reference.h"

namespace attune::reference {

/// Numbers of pages in a random order, i32 [batch, ceil(keys / size)], each once; `lengths` [batch] may be null.
HostTensor pageTable(int64_t batch, int64_t keys, int64_t size, const HostTensor *lengths, uint64_t seed);

/// The rows [B, H, S, D] of sequences in pages, [P, H, size, D]. Rows of sequences that share a page become the same ones.
HostTensor toPages(HostTensor &rows, const HostTensor &table, int64_t size, const HostTensor *lengths);

/// NaN in all rows [B, H, S, D] behind the sequences' lengths.
void poisonAfter(HostTensor &rows, const HostTensor &lengths);

} // namespace attune::reference
