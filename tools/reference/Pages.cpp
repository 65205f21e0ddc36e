//===- Pages.cpp - Keys in pages, as launches take them ------------------------===//
#include "tools/reference/Pages.h"

#include "tools/reference/Program.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace attune::reference {

HostTensor pageTable(int64_t batch, int64_t keys, int64_t size, const HostTensor *lengths, uint64_t seed) {
  const int64_t columns = (keys + size - 1) / size;
  HostTensor table = HostTensor::zeros(DType::I32, {batch, columns});
  std::vector<int64_t> numbers(size_t(batch * columns));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(seed));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t entry = b * columns + i;
      const bool isUsed = i * size < keysOf(lengths, b, keys);
      table.setInt(entry, isUsed ? numbers[size_t(entry)] : entry % 2 ? -1 : std::numeric_limits<int32_t>::max());
    }
  return table;
}

HostTensor toPages(HostTensor &rows, const HostTensor &table, int64_t size, const HostTensor *lengths) {
  const int64_t batch = rows.shape[0], heads = rows.shape[1], keys = rows.shape[2], entries = table.shape[1];
  const size_t row = size_t(rows.shape[3]) * byteSize(rows.dtype);
  int64_t count = 1;
  auto forEachRow = [&](auto &&visit) {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t k = 0; k < keysOf(lengths, b, keys); ++k)
        visit(b, k, table.intAt(b * entries + k / size));
  };
  forEachRow([&](int64_t, int64_t, int64_t page) { count = std::max(count, page + 1); });
  HostTensor pages = HostTensor::zeros(rows.dtype, {count, heads, size, rows.shape[3]});
  std::fill(pages.data.begin(), pages.data.end(), std::byte(0xff)); // NaN in each dtype
  for (bool intoPages : {true, false})
    forEachRow([&](int64_t b, int64_t k, int64_t page) {
      for (int64_t h = 0; h < heads; ++h) {
        std::byte *own = rows.data.data() + size_t((b * heads + h) * keys + k) * row,
                  *inPage = pages.data.data() + size_t((page * heads + h) * size + k % size) * row;
        std::copy_n(intoPages ? own : inPage, row, intoPages ? inPage : own);
      }
    });
  return pages;
}

void poisonAfter(HostTensor &rows, const HostTensor &lengths) {
  const int64_t heads = rows.shape[1], keys = rows.shape[2];
  const size_t row = size_t(rows.shape[3]) * byteSize(rows.dtype);
  for (int64_t plane = 0; plane < rows.shape[0] * heads; ++plane) {
    std::byte *first = rows.data.data() + size_t(plane * keys) * row;
    std::fill(first + size_t(keysOf(&lengths, plane / heads, keys)) * row, first + size_t(keys) * row, std::byte(0xff));
  }
}

} // namespace attune::reference
