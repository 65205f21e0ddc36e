//===- Npy.cpp - Tensors on the host and NumPy's file format -----------------===//
#include "tools/reference/Npy.h"

#include "tools/reference/Memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>

namespace attune::reference {

static_assert(std::endian::native == std::endian::little, "the .npy code copies little-endian bytes");

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

namespace {

/// Bits of the exponent and the fraction after the sign.
struct NarrowFormat {
  int exponentBits;
  int fractionBits;
};

constexpr NarrowFormat formatOf(DType type) { return type == DType::F16 ? NarrowFormat{5, 10} : NarrowFormat{8, 7}; }

} // namespace

uint16_t narrowBits(DType type, double value) {
  assert(byteSize(type) == 2 && "only f16 and bf16 are narrow");
  auto [exponentBits, fractionBits] = formatOf(type);
  int bias = (1 << (exponentBits - 1)) - 1;
  uint64_t bits = std::bit_cast<uint64_t>(value);
  uint16_t sign = uint16_t(bits >> 63 << 15);
  uint64_t infinity = uint64_t((1 << exponentBits) - 1) << fractionBits;
  uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  int exponent = int(bits >> 52 & 0x7FF);
  if (exponent == 0x7FF)
    return uint16_t(sign | infinity | (fraction ? uint64_t{1} << (fractionBits - 1) : 0));
  if (exponent == 0) // a subnormal double is far below half of the smallest narrow value
    return sign;
  uint64_t significand = fraction | uint64_t{1} << 52;
  int narrowExponent = exponent - 1023 + bias;
  int shift = 52 - fractionBits;
  if (narrowExponent < 1) { // subnormal: the implicit one becomes explicit
    shift += 1 - narrowExponent;
    narrowExponent = 1;
    if (shift > 60)
      return sign;
  }
  uint64_t rounded = significand >> shift;
  uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  uint64_t half = uint64_t{1} << (shift - 1);
  rounded += rest > half || (rest == half && (rounded & 1));
  // A carry out of the fraction steps the exponent, as the encoding intends.
  uint64_t magnitude = (uint64_t(narrowExponent - 1) << fractionBits) + rounded;
  return uint16_t(sign | std::min(magnitude, infinity));
}

float widenBits(DType type, uint16_t bits) {
  if (type == DType::BF16)
    return std::bit_cast<float>(uint32_t(bits) << 16);
  assert(type == DType::F16 && "only f16 and bf16 are narrow");
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1F;
  uint32_t fraction = bits & 0x3FF;
  if (exponent == 0x1F)
    return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  if (exponent == 0) {
    float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

float roundTo(DType type, float value) {
  if (type == DType::F32)
    return value;
  if (type == DType::BF16) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
      return value;
    bits += 0x7FFF + (bits >> 16 & 1);
    return std::bit_cast<float>(bits & 0xFFFF0000);
  }
  // Adding and subtracting a power of two leaves the 10 fraction bits; below 2^-14 the step is fixed.
  float magnitude = std::fabs(value);
  if (!(magnitude < 65520.0f))
    return std::isnan(value) ? value : std::copysign(std::numeric_limits<float>::infinity(), value);
  uint32_t exponent = std::max(std::bit_cast<uint32_t>(magnitude) >> 23, 113u);
  float big = std::bit_cast<float>((exponent + 13) << 23);
  float sum = magnitude + big;
  return std::copysign(sum - big, value);
}

//===----------------------------------------------------------------------===//
// HostTensor
//===----------------------------------------------------------------------===//

namespace {

int64_t productOf(std::span<const int64_t> shape) {
  int64_t product = 1;
  for (int64_t extent : shape)
    product *= extent;
  return product;
}

template <typename T> T load(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T> void store(std::byte *to, T value) { std::memcpy(to, &value, sizeof(T)); }

/// double to integer as a saturating truncation; NaN gives 0.
template <typename T> T truncated(double value) {
  if (std::isnan(value))
    return 0;
  if (value >= -double(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::max();
  if (value <= double(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  return T(value);
}

} // namespace

HostTensor HostTensor::uninitialized(DType dtype, std::vector<int64_t> shape) {
  HostTensor tensor{dtype, std::move(shape), {}};
  tensor.data.resize(size_t(tensor.size()) * byteSize(dtype));
  return tensor;
}

HostTensor HostTensor::zeros(DType dtype, std::vector<int64_t> shape) {
  HostTensor tensor = uninitialized(dtype, std::move(shape));
  std::fill(tensor.data.begin(), tensor.data.end(), std::byte{0});
  return tensor;
}

HostTensor HostTensor::fromDoubles(DType dtype, std::vector<int64_t> shape, std::span<const double> values) {
  HostTensor tensor = zeros(dtype, std::move(shape));
  assert(int64_t(values.size()) == tensor.size() && "one value per element");
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set(int64_t(i), values[i]);
  return tensor;
}

HostTensor HostTensor::fromInts(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values) {
  HostTensor tensor = zeros(dtype, std::move(shape));
  assert(int64_t(values.size()) == tensor.size() && "one value per element");
  for (size_t i = 0; i < values.size(); ++i)
    tensor.setInt(int64_t(i), values[i]);
  return tensor;
}

int64_t HostTensor::size() const { return productOf(shape); }

double HostTensor::at(int64_t i) const {
  const std::byte *from = data.data() + size_t(i) * byteSize(dtype);
  switch (dtype) {
  case DType::F32:
    return load<float>(from);
  case DType::F16:
  case DType::BF16:
    return widenBits(dtype, load<uint16_t>(from));
  case DType::I32:
    return load<int32_t>(from);
  case DType::I64:
    return double(load<int64_t>(from));
  case DType::Bool:
    return *from != std::byte{0};
  }
  return 0;
}

int64_t HostTensor::intAt(int64_t i) const {
  if (dtype == DType::I64)
    return load<int64_t>(data.data() + size_t(i) * 8);
  return truncated<int64_t>(at(i));
}

void HostTensor::set(int64_t i, double value) {
  std::byte *to = data.data() + size_t(i) * byteSize(dtype);
  switch (dtype) {
  case DType::F32:
    return store(to, float(value));
  case DType::F16:
  case DType::BF16:
    return store(to, narrowBits(dtype, value));
  case DType::I32:
    return store(to, truncated<int32_t>(value));
  case DType::I64:
    return store(to, truncated<int64_t>(value));
  case DType::Bool:
    return store(to, uint8_t(value != 0));
  }
}

void HostTensor::setInt(int64_t i, int64_t value) {
  std::byte *to = data.data() + size_t(i) * byteSize(dtype);
  if (dtype == DType::I64)
    return store(to, value);
  if (dtype == DType::I32)
    return store(to, int32_t(value));
  set(i, double(value));
}

std::vector<double> HostTensor::doubles() const {
  std::vector<double> values(static_cast<size_t>(size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = at(int64_t(i));
  return values;
}

std::vector<float> HostTensor::floats() const {
  std::vector<float> values(static_cast<size_t>(size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(at(int64_t(i)));
  return values;
}

HostTensor HostTensor::converted(DType to) const {
  if (to == dtype)
    return *this;
  HostTensor result = zeros(to, shape);
  for (int64_t i = 0, count = size(); i < count; ++i) {
    if (isFloat(dtype) || isFloat(to))
      result.set(i, at(i));
    else
      result.setInt(i, intAt(i));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// The .npy format (numpy.lib.format)
//===----------------------------------------------------------------------===//

namespace {

/// Reads the header's Python dictionary: exactly the keys descr, fortran_order and shape.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : rest(text) {}

  std::string descr;
  bool fortranOrder = false;
  std::vector<int64_t> shape;

  /// Empty on success, else what is wrong.
  std::string parse() {
    bool hasDescr = false, hasOrder = false, hasShape = false;
    if (!eat('{'))
      return "the header is not a dictionary";
    while (!eat('}')) {
      std::string key;
      if (!string(key) || !eat(':'))
        return "the header is not a dictionary with quoted keys";
      if (key == "descr") {
        if (!string(descr))
          return "descr is not a plain type; structured arrays have no attune dtype";
        hasDescr = true;
      } else if (key == "fortran_order") {
        if (word("True"))
          fortranOrder = true;
        else if (!word("False"))
          return "fortran_order is neither True nor False";
        hasOrder = true;
      } else if (key == "shape") {
        if (!tuple())
          return "shape is not a tuple of non-negative integers";
        hasShape = true;
      } else {
        return "the header has the unknown key '" + key + "'";
      }
      eat(',');
    }
    if (!hasDescr || !hasOrder || !hasShape)
      return "the header lacks descr, fortran_order or shape";
    return "";
  }

private:
  void skipSpace() {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())))
      rest.remove_prefix(1);
  }
  bool eat(char c) {
    skipSpace();
    if (rest.empty() || rest.front() != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  bool word(std::string_view expected) {
    skipSpace();
    if (!rest.starts_with(expected))
      return false;
    rest.remove_prefix(expected.size());
    return true;
  }
  bool string(std::string &out) {
    skipSpace();
    if (rest.empty() || (rest.front() != '\'' && rest.front() != '"'))
      return false;
    size_t end = rest.find(rest.front(), 1);
    if (end == std::string_view::npos)
      return false;
    out = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return true;
  }
  bool tuple() {
    if (!eat('('))
      return false;
    while (!eat(')')) {
      skipSpace();
      int64_t extent = 0;
      size_t digits = 0;
      for (; digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits])); ++digits) {
        if (extent > (std::numeric_limits<int64_t>::max() - 9) / 10)
          return false;
        extent = extent * 10 + (rest[digits] - '0');
      }
      if (digits == 0)
        return false;
      rest.remove_prefix(digits);
      word("L"); // written by Python 2
      shape.push_back(extent);
      eat(',');
    }
    return true;
  }

  std::string_view rest;
};

constexpr std::string_view magic = "\x93NUMPY";

Error fail(const std::string &name, const std::string &what) { return Error{name + ": " + what}; }

std::string bytesText(uint64_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

std::vector<std::byte> fileBytes(std::string_view descr, std::span<const int64_t> shape,
                                 std::span<const std::byte> payload) {
  std::string header = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    header += (i ? ", " : "") + std::to_string(shape[i]);
  header += shape.size() == 1 ? ",), }" : "), }";
  // The payload starts at a multiple of 64 and the header ends with a newline.
  bool wide = header.size() + 64 + 10 > 65535;
  size_t preamble = wide ? 12 : 10;
  header.append(63 - (preamble + header.size()) % 64, ' ');
  header += '\n';
  std::string start(magic);
  start += char(wide ? 2 : 1);
  start += char(0);
  for (size_t i = 0; i < preamble - 8; ++i)
    start += char(header.size() >> (8 * i) & 0xFF);
  start += header;
  std::vector<std::byte> bytes(start.size() + payload.size());
  std::memcpy(bytes.data(), start.data(), start.size());
  if (!payload.empty())
    std::memcpy(bytes.data() + start.size(), payload.data(), payload.size());
  return bytes;
}

/// What a header says.
struct Header {
  DType dtype = DType::F32;
  bool isDouble = false; ///< 8 bytes an element, rounded to f32
  std::vector<int64_t> shape = {};
  size_t dataStart = 0;
  uint64_t dataBytes = 0;
};

/// NumPy's own limit is 10,000.
constexpr size_t maxHeaderBytes = 1 << 20;

struct Elements {
  DType dtype = DType::F32;
  bool isDouble = false; ///< 8 bytes an element, rounded to f32
};

/// The elements that NumPy describes by `descr`.
Expected<Elements> elementsOf(const std::string &descr, const std::string &name, VoidElements voids,
                              DoubleElements doubles) {
  if (descr == "<f4")
    return Elements{DType::F32};
  if (descr == "<f2")
    return Elements{DType::F16};
  if (descr == "<f8") {
    if (doubles == DoubleElements::Reject)
      return fail(
          name, "the elements are float64, but must be float16, bfloat16 or float32; save a.astype('float32') instead");
    return Elements{DType::F32, true};
  }
  if (descr == "<i4")
    return Elements{DType::I32};
  if (descr == "<i8")
    return Elements{DType::I64};
  if (descr == "|b1" || descr == "b1")
    return Elements{DType::Bool};
  if (descr == "V2" || descr == "|V2" || descr == "<V2") {
    if (voids == VoidElements::Reject)
      return fail(name, "the elements are '" + descr +
                            "' (two bytes without a type); declare the tensor "
                            "as bf16 or save it as float32");
    return Elements{DType::BF16};
  }
  if (descr.starts_with('>'))
    return fail(name,
                "the elements are big endian ('" + descr + "'); save a.astype('<" + descr.substr(1) + "') instead");
  return fail(name, "dtype '" + descr + "' is not supported; save float16, float32, float64, int32, int64 or bool");
}

/// The header of a file that begins with `text`.
Expected<Header> readHeader(std::string_view text, const std::string &name, VoidElements voids,
                            DoubleElements doubles) {
  if (!text.starts_with(magic))
    return fail(name, "not a .npy file: it does not start with \\x93NUMPY; write it with numpy.save");
  if (text.size() < 10)
    return fail(name, "truncated .npy file: the header ends after " + bytesText(text.size()));
  int major = static_cast<unsigned char>(text[6]);
  if (major < 1 || major > 3)
    return fail(name, ".npy format version " + std::to_string(major) + " is not one of 1, 2, 3");
  size_t lengthBytes = major == 1 ? 2 : 4;
  if (text.size() < 8 + lengthBytes)
    return fail(name, "truncated .npy file: the header ends after " + bytesText(text.size()));
  size_t headerLength = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    headerLength |= size_t(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  if (headerLength > maxHeaderBytes)
    return fail(name, "malformed .npy file: the header has " + bytesText(headerLength) + ", the most is " +
                          std::to_string(maxHeaderBytes));
  size_t dataStart = 8 + lengthBytes + headerLength;
  if (text.size() < dataStart)
    return fail(name, "truncated .npy file: the header has " + bytesText(text.size() - 8 - lengthBytes) + " of " +
                          std::to_string(headerLength));

  HeaderParser header(text.substr(8 + lengthBytes, headerLength));
  if (std::string problem = header.parse(); !problem.empty())
    return fail(name, "malformed .npy file: " + problem);
  if (header.fortranOrder)
    return fail(name, "the array is in Fortran order; save numpy.ascontiguousarray(a) instead");

  Expected<Elements> elements = elementsOf(header.descr, name, voids, doubles);
  if (!elements)
    return elements.error();
  uint64_t expected = elements->isDouble ? 8 : byteSize(elements->dtype);
  for (int64_t extent : header.shape)
    if (__builtin_mul_overflow(expected, uint64_t(extent), &expected))
      return fail(name, "malformed .npy file: the shape holds more than 2^64 bytes");
  return Header{elements->dtype, elements->isDouble, std::move(header.shape), dataStart, expected};
}

} // namespace

Expected<HostTensor> parseNpy(std::span<const std::byte> bytes, const std::string &name, VoidElements voids,
                              DoubleElements doubles) {
  Expected<Header> header =
      readHeader({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, name, voids, doubles);
  if (!header)
    return header.error();
  const uint64_t actual = bytes.size() - header->dataStart, expected = header->dataBytes;
  if (actual < expected)
    return fail(name, "truncated .npy file: the data has " + bytesText(actual) + " of " + std::to_string(expected));
  if (actual > expected)
    return fail(name, "malformed .npy file: the file goes on after its " + bytesText(expected) + " of data");

  HostTensor tensor = HostTensor::zeros(header->dtype, std::move(header->shape));
  const std::byte *from = bytes.data() + header->dataStart;
  if (header->isDouble) {
    for (int64_t i = 0, count = tensor.size(); i < count; ++i)
      tensor.set(i, load<double>(from + size_t(i) * 8));
  } else if (header->dtype == DType::Bool) {
    for (size_t i = 0; i < expected; ++i)
      tensor.data[i] = std::byte(from[i] != std::byte{0});
  } else if (expected != 0) {
    std::memcpy(tensor.data.data(), from, expected);
  }
  return tensor;
}

/// Reads on until `content` has `bytes` bytes or the file ends.
static void readUpTo(std::ifstream &file, std::string &content, uint64_t bytes) {
  const size_t before = content.size();
  if (bytes <= before)
    return;
  content.resize(bytes);
  file.read(content.data() + before, std::streamsize(bytes - before));
  content.resize(before + size_t(file.gcount()));
}

/// The file's bytes: those that its header announces, and one more where it goes on, so that a device without an end is
/// read no further.
static Expected<std::string> readArrayFile(const std::string &path, VoidElements voids, DoubleElements doubles) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string content;
  readUpTo(file, content, 12 + maxHeaderBytes);
  if (file) { // longer than any header
    Expected<Header> header = readHeader(content, path, voids, doubles);
    if (!header)
      return header.error();
    uint64_t bytes = header->dataStart + 1;
    bytes = std::max(bytes, bytes + header->dataBytes); // no less where the sum wraps
    if (std::error_code code; std::filesystem::is_regular_file(path, code))
      bytes = std::min<uint64_t>(bytes, std::filesystem::file_size(path, code));
    MemoryNeed need;
    need.add("the text", bytes);
    need.add("the tensor", bytes);
    if (Expected<void> fits = need.fits(path, "save a smaller array"); !fits)
      return fits.error();
    readUpTo(file, content, bytes);
  }
  if (!file.is_open() || file.bad())
    return fail(path, std::string("cannot be read: ") + std::strerror(errno ? errno : EIO));
  return content;
}

Expected<HostTensor> readNpy(const std::string &path, VoidElements voids, DoubleElements doubles) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) // a stream opens it, and throws where it reads
    return fail(path, "is a directory; name a .npy file");
  Expected<std::string> content = readArrayFile(path, voids, doubles);
  if (!content)
    return content.error();
  return parseNpy(std::as_bytes(std::span(*content)), path, voids, doubles);
}

std::vector<std::byte> formatNpy(const HostTensor &tensor, NarrowFloats narrow) {
  if (byteSize(tensor.dtype) == 2 && narrow == NarrowFloats::Widen)
    return formatNpy(tensor.converted(DType::F32));
  std::string_view descr;
  switch (tensor.dtype) {
  case DType::F32:
    descr = "<f4";
    break;
  case DType::F16:
    descr = "<f2";
    break;
  case DType::BF16:
    descr = "|V2";
    break;
  case DType::I32:
    descr = "<i4";
    break;
  case DType::I64:
    descr = "<i8";
    break;
  case DType::Bool:
    descr = "|b1";
    break;
  }
  return fileBytes(descr, tensor.shape, tensor.data);
}

} // namespace attune::reference
