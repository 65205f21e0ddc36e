//===- TileMaps.cpp - The tile map of a request, and its pictures -------------===//

#include "tools/attune/TileMaps.h"

#include "driver/Lowering.h"
#include "tools/attune/Output.h"
#include "tools/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// What the kernel of the map reads, for any tiles.
static Expected<driver::TileMapText> readBy(const Request &request) {
  return driver::tileMapText(sourceOf(request), 16, 16);
}

/// The tensors and scalars of `text`.
struct MaskData {
  std::map<std::string, HostTensor> tensors, scalars;
};

static Expected<MaskData> makeData(const Request &request, const Shape &shape, const driver::TileMapText &text,
                                   uint64_t seed) {
  if (Expected<void> there = requireData(request, text.tensors, text.scalars, shape); !there)
    return there.error();
  MaskData data;
  // As attune run draws them: numbered among all of the variant's.
  std::vector<std::string> all;
  if (request.summary)
    std::ranges::transform(request.summary->signature.tensors, std::back_inserter(all), &TensorParam::name);
  else
    std::ranges::transform(request.variant->tensors(), std::back_inserter(all), &TensorDecl::name);
  for (const TensorParam &param : text.tensors) {
    const auto place = std::ranges::find(all, param.name) - all.begin();
    Expected<HostTensor> tensor = makeTensor(request, param, shape, seed * 1000 + 10 + uint64_t(place));
    if (!tensor)
      return tensor.error();
    data.tensors[param.name] = std::move(*tensor);
  }
  for (const ScalarParam &param : text.scalars) {
    Expected<HostTensor> value = makeScalar(request, param);
    if (!value)
      return value.error();
    data.scalars[param.name] = std::move(*value);
  }
  return data;
}

/// Fills in the tensors and scalars of `text`.
static Expected<TileMap> mapWith(const Request &request, const Shape &shape, const driver::TileMapText &text,
                                 TileMapArgs args, uint64_t seed) {
  Expected<MaskData> data = makeData(request, shape, text, seed);
  if (!data)
    return data.error();
  for (const auto &[name, tensor] : data->tensors)
    args.tensors.push_back({name, Tensor::contiguous(tensor.data.data(), tensor.dtype, tensor.shape)});
  for (const auto &[name, value] : data->scalars)
    args.scalars.push_back({name, reference::scalarValue(value)});
  return request.text ? tileMapOfText(*request.text, args) : tileMap(*request.variant, args);
}

Expected<TileMap> attune::cli::makeTileMap(const Request &request, const Shape &shape, int tileQ, int tileK,
                                           std::optional<int32_t> qOffset, uint64_t seed) {
  Expected<driver::TileMapText> text = readBy(request);
  if (!text)
    return text.error();
  return mapWith(request, shape, *text, {.sizes = sizesOf(shape), .tileQ = tileQ, .tileK = tileK, .qOffset = qOffset},
                 seed);
}

Expected<std::shared_ptr<const TileMap>> attune::cli::knownTileMap(const Request &request, const Shape &shape,
                                                                   std::optional<int32_t> qOffset, uint64_t seed) {
  const std::shared_ptr<const TileMap> none;
  if (std::min({shape.batch, shape.heads, shape.queries, shape.keys}) < 1)
    return none;
  Expected<driver::TileMapText> text = readBy(request);
  if (!text)
    return text.error();
  const bool isKnownWithout = !text->skips && text->tensors.empty() && text->scalars.empty();
  if (isKnownWithout || !requireData(request, text->tensors, text->scalars, shape))
    return none;
  constexpr double most = double(1 << 22);
  const double heads = double(text->byBatch ? shape.batch : 1) * double(text->byHead ? shape.heads : 1);
  if (text->evaluatesAll && heads * double(shape.queries) * double(shape.keys) > double(1 << 28))
    return none;
  int tile = 16;
  while (heads * (double(shape.queries) / tile + 1) * (double(shape.keys) / tile + 1) > most && tile < 1 << 20)
    tile *= 2;
  Expected<TileMap> map =
      mapWith(request, shape, *text, {.sizes = sizesOf(shape), .tileQ = tile, .tileK = tile, .qOffset = qOffset}, seed);
  if (!map)
    return map.error();
  return std::make_shared<const TileMap>(std::move(*map));
}

Expected<ElementMap> attune::cli::makeElementMap(const Request &request, const Shape &shape, int64_t b, int64_t h,
                                                 int64_t q, int64_t k, int64_t queries, int64_t keys,
                                                 std::optional<int32_t> qOffset, uint64_t seed) {
  if (!request.variant)
    return Error{"elements are those of a variant's formula, which attn text does not hold; give the variant"};
  Expected<driver::TileMapText> text = readBy(request);
  if (!text)
    return text.error();
  Expected<MaskData> data = makeData(request, shape, *text, seed);
  if (!data)
    return data.error();
  reference::Problem problem;
  problem.variant = &*request.variant;
  problem.q = {DType::F32, {shape.batch, shape.heads, shape.queries, shape.headDim}, {}};
  problem.k = {DType::F32, {shape.batch, shape.headsKv, shape.keys, shape.headDim}, {}};
  problem.v = {DType::F32, {shape.batch, shape.headsKv, shape.keys, shape.headDimV}, {}};
  problem.tensors = std::move(data->tensors);
  problem.scalars = std::move(data->scalars);
  problem.qOffset = qOffset.value_or(0);
  auto around = [](int64_t at, int64_t size, int64_t count) {
    return std::pair(std::clamp<int64_t>(at - size / 2, 0, std::max<int64_t>(0, count - size)), std::min(size, count));
  };
  ElementMap result;
  reference::ElementRange range{.b = b, .h = h};
  std::tie(range.firstQuery, range.queries) = around(q, queries, shape.queries);
  std::tie(range.firstKey, range.keys) = around(k, keys, shape.keys);
  Expected<std::vector<uint8_t>> visible = reference::visibleElements(problem, range);
  if (!visible)
    return visible.error();
  result.firstQuery = range.firstQuery;
  result.firstKey = range.firstKey;
  result.map = {.tileQ = 1, .tileK = 1, .queries = range.queries, .keys = range.keys};
  result.map.batches = result.map.heads = result.map.sameBatches = result.map.sameHeads = 1;
  result.map.rows = range.queries;
  result.map.columns = range.keys;
  for (uint8_t each : *visible)
    result.map.tiles.push_back(each ? TileClass::Full : TileClass::Empty);
  return result;
}

//===----------------------------------------------------------------------===//
// Pictures
//===----------------------------------------------------------------------===//

namespace {
/// Tiles [first, last) of one of `cells` equal parts of an axis.
struct Part {
  int64_t first, last;
  Part(int64_t cell, int64_t cells, int64_t tiles) : first(cell * tiles / cells), last((cell + 1) * tiles / cells) {}
};

/// What is visited, and what is full, of a part of the map, as shares.
struct Splits {
  double visited = 0, full = 0;
};
} // namespace

static Splits splitsOf(const TileMapHead &head, Part rows, Part columns) {
  Splits shares;
  for (int64_t row = rows.first; row < rows.last; ++row)
    for (int64_t column = columns.first; column < columns.last; ++column) {
      shares.visited += head.at(row, column) != TileClass::Empty;
      shares.full += head.at(row, column) == TileClass::Full;
    }
  const double tiles = double((rows.last - rows.first) * (columns.last - columns.first));
  return {shares.visited / tiles, shares.full / tiles};
}

static int64_t visitedIn(const TileMapHead &head, int64_t row) {
  int64_t visited = 0;
  for (int64_t column = 0; column < head.map.columns; ++column)
    visited += head.at(row, column) != TileClass::Empty;
  return visited;
}

std::string attune::cli::tileMapText(const TileMapHead &head) {
  const int64_t rows = std::min<int64_t>(head.map.rows, 32), columns = std::min<int64_t>(head.map.columns, 64);
  std::string text;
  for (int64_t row = 0; row < rows; ++row) {
    const Part of(row, rows, head.map.rows);
    std::string line;
    for (int64_t column = 0; column < columns; ++column) {
      const Splits shares = splitsOf(head, of, Part(column, columns, head.map.columns));
      line += shares.visited == 0 ? '.' : shares.full == 1 ? '#' : '+';
    }
    double visited = 0;
    for (int64_t each = of.first; each < of.last; ++each)
      visited += double(visitedIn(head, each));
    fmt::format_to(std::back_inserter(text), "  {:>9} {} {:g}\n", head.firstQuery + of.first * head.map.tileQ, line,
                   std::round(10 * visited / double(of.last - of.first)) / 10);
  }
  return text;
}

/// Grey of a share of visited tiles, darker where they are full: 255 is white.
static int greyOf(const Splits &shares) { return int(255 - 110 * shares.visited - 115 * shares.full); }

std::string attune::cli::tileMapSvg(const TileMapHead &head, const std::string &title) {
  const int64_t rows = std::min<int64_t>(head.map.rows, 512), columns = std::min<int64_t>(head.map.columns, 512);
  constexpr double size = 640, top = 40, left = 10;
  const double width = size / double(columns), height = size / double(rows);
  std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
                                "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
                                "fill=\"white\"/>\n<text x=\"{}\" y=\"24\">{}</text>\n"
                                "<g transform=\"translate({} {})\" shape-rendering=\"crispEdges\">\n",
                                size + 2 * left, size + top + left, left, xmlText(title), left, top);
  for (int64_t row = 0; row < rows; ++row)
    // Neighbouring cells of one grey are one rectangle.
    for (int64_t column = 0, first = 0, grey = -1; column <= columns; ++column) {
      const int64_t next =
          column < columns
              ? greyOf(splitsOf(head, Part(row, rows, head.map.rows), Part(column, columns, head.map.columns)))
              : -1;
      if (next == grey)
        continue;
      if (grey >= 0 && grey < 255)
        fmt::format_to(
            std::back_inserter(svg),
            "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"#{:02x}{:02x}{:02x}\"/>\n",
            double(first) * width, double(row) * height, double(column - first) * width, height, grey, grey, grey);
      first = column;
      grey = next;
    }
  return svg + fmt::format("<rect width=\"{0}\" height=\"{0}\" fill=\"none\" stroke=\"black\"/>\n</g>\n</svg>\n", size);
}

/// CRC-32 of PNG's chunks (ISO 3309), bit by bit.
static uint32_t crc32(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

static std::string bigEndian(uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

static std::string chunk(const std::string &type, const std::string &content) {
  return bigEndian(uint32_t(content.size())) + type + content + bigEndian(crc32(type + content));
}

/// zlib's form without compression (RFC 1950 and 1951): stored blocks, and Adler's checksum.
static std::string stored(const std::string &bytes) {
  constexpr size_t most = 65535;
  std::string result = "\x78\x01";
  for (size_t first = 0; first < bytes.size(); first += most) {
    const auto length = uint16_t(std::min(most, bytes.size() - first));
    result += char(first + length == bytes.size());
    for (uint16_t word : {length, uint16_t(~length)}) {
      result += char(word & 255);
      result += char(word >> 8);
    }
    result.append(bytes, first, length);
  }
  uint32_t a = 1, b = 0;
  for (unsigned char byte : bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return result + bigEndian(b << 16 | a);
}

std::string attune::cli::tileMapPng(const TileMapHead &head) {
  constexpr int64_t mostPixels = 2048;
  const int64_t rows = std::min(head.map.rows, mostPixels), columns = std::min(head.map.columns, mostPixels);
  const int64_t square = std::max<int64_t>(1, 512 / std::max(rows, columns));
  std::string pixels;
  for (int64_t row = 0; row < rows; ++row) {
    std::string line(1, '\0'); // the line's filter: none
    for (int64_t column = 0; column < columns; ++column)
      line.append(size_t(square), char(greyOf(splitsOf(head, Part(row, rows, head.map.rows),
                                                       Part(column, columns, head.map.columns)))));
    for (int64_t i = 0; i < square; ++i)
      pixels += line;
  }
  const std::string header = bigEndian(uint32_t(columns * square)) + bigEndian(uint32_t(rows * square)) +
                             std::string("\x08\x00\x00\x00\x00", 5); // 8 bits of grey
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", stored(pixels)) + chunk("IEND", "");
}
