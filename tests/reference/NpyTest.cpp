#include "tools/reference/Npy.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace attune;
using namespace attune::reference;

namespace {

/// A .npy file with this dictionary and `payload` bytes of zeros.
std::vector<std::byte> file(const std::string &dictionary, size_t payload, int version = 1) {
  std::string text = "\x93NUMPY";
  text += char(version);
  text += char(0);
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    text += char(dictionary.size() >> (8 * i) & 0xFF);
  text += dictionary + std::string(payload, '\0');
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string messageOf(const std::vector<std::byte> &bytes) {
  Expected<HostTensor> tensor = parseNpy(bytes, "x.npy");
  return tensor ? "parsed" : tensor.error().message;
}

std::string messageOf(const std::string &dictionary, size_t payload) { return messageOf(file(dictionary, payload)); }

bool same(const HostTensor &a, const HostTensor &b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.data == b.data;
}

} // namespace

TEST_CASE("tensors survive the .npy format") {
  for (DType dtype : {f32, f16, bf16, i32, i64, boolean})
    for (std::vector<int64_t> shape : {std::vector<int64_t>{}, {5}, {2, 3, 4}, {0, 7}, {1, 1, 1, 1, 1}}) {
      HostTensor tensor = HostTensor::random(dtype, shape, 3);
      std::vector<std::byte> bytes = formatNpy(tensor, NarrowFloats::Keep);
      CHECK((bytes.size() - tensor.bytes()) % 64 == 0);
      Expected<HostTensor> back = parseNpy(bytes, "x.npy", VoidElements::BFloat16);
      REQUIRE(back);
      CHECK(same(*back, tensor));
    }
}

TEST_CASE("narrow floats are widened unless kept") {
  for (DType dtype : {f16, bf16}) {
    HostTensor tensor = HostTensor::random(dtype, {9}, 1);
    Expected<HostTensor> back = parseNpy(formatNpy(tensor), "x.npy");
    REQUIRE(back);
    CHECK(back->dtype == f32);
    CHECK(back->doubles() == tensor.doubles());
  }
}

TEST_CASE("all three versions of the header are read, in any spelling") {
  for (int version : {1, 2, 3}) {
    Expected<HostTensor> tensor =
        parseNpy(file("{\"shape\":( 2 ,3L),'fortran_order':False , 'descr':'<i4'}  \n", 24, version), "x.npy");
    REQUIRE(tensor);
    CHECK(tensor->dtype == i32);
    CHECK(tensor->shape == std::vector<int64_t>{2, 3});
  }
}

TEST_CASE("float64 is rounded to f32, bytes become bool") {
  std::vector<double> values = {0.1, -2};
  std::string path = (std::filesystem::temp_directory_path() / ("attune-npy-" + std::to_string(getpid()))).string();
  std::vector<std::byte> doubles = file("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", 16);
  std::memcpy(doubles.data() + doubles.size() - 16, values.data(), 16);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(doubles.data()), doubles.size());
  Expected<HostTensor> tensor = readNpy(path);
  Expected<HostTensor> rejected = readNpy(path, VoidElements::BFloat16, DoubleElements::Reject);
  std::filesystem::remove(path);
  REQUIRE(tensor);
  CHECK(tensor->dtype == f32);
  CHECK(tensor->at(0) == double(0.1f));
  REQUIRE(!rejected);
  CHECK(rejected.error().message ==
        path +
            ": the elements are float64, but must be float16, bfloat16 or float32; save a.astype('float32') instead");
  CHECK(tensor->at(1) == -2);

  std::vector<std::byte> flags = file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", 2);
  flags.back() = std::byte{7};
  Expected<HostTensor> bools = parseNpy(flags, "x.npy");
  REQUIRE(bools);
  CHECK((bools->data[0] == std::byte{0} && bools->data[1] == std::byte{1} && bools->data.size() == 2));
}

TEST_CASE("a corrupt file is an error that says what is wrong") {
  std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  CHECK(messageOf(good, 8) == "parsed");
  CHECK(messageOf(std::vector<std::byte>(20)) ==
        "x.npy: not a .npy file: it does not start with \\x93NUMPY; write it with numpy.save");
  CHECK(messageOf(std::vector<std::byte>{}) ==
        "x.npy: not a .npy file: it does not start with \\x93NUMPY; write it with numpy.save");
  CHECK(messageOf(good, 7) == "x.npy: truncated .npy file: the data has 7 bytes of 8");
  CHECK(messageOf(good, 9) == "x.npy: malformed .npy file: the file goes on after its 8 bytes of data");
  CHECK(messageOf(file(good, 8, 9)) == "x.npy: .npy format version 9 is not one of 1, 2, 3");
  CHECK(messageOf("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}", 8) ==
        "x.npy: the array is in Fortran order; save numpy.ascontiguousarray(a) instead");
  CHECK(messageOf("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", 16) ==
        "x.npy: dtype '<c8' is not supported; save float16, float32, float64, int32, int64 or bool");
  CHECK(messageOf("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8) ==
        "x.npy: the elements are big endian ('>f4'); save a.astype('<f4') instead");
  CHECK(messageOf("{'descr': '|V2', 'fortran_order': False, 'shape': (2,)}", 4) ==
        "x.npy: the elements are '|V2' (two bytes without a type); declare the tensor as bf16 or save it as "
        "float32");
  CHECK(messageOf("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8) ==
        "x.npy: malformed .npy file: descr is not a plain type; structured arrays have no attune dtype");
  CHECK(messageOf("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", 8) ==
        "x.npy: malformed .npy file: fortran_order is neither True nor False");
  CHECK(messageOf("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8) ==
        "x.npy: malformed .npy file: shape is not a tuple of non-negative integers");
  CHECK(messageOf("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 8) ==
        "x.npy: malformed .npy file: shape is not a tuple of non-negative integers");
  CHECK(messageOf("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}", 8) ==
        "x.npy: malformed .npy file: the shape holds more than 2^64 bytes");
  CHECK(messageOf("{'descr': '<f4', 'shape': (2,)}", 8) ==
        "x.npy: malformed .npy file: the header lacks descr, fortran_order or shape");
  CHECK(messageOf("{'descr': '<f4', 'color': 'red'}", 8) ==
        "x.npy: malformed .npy file: the header has the unknown key 'color'");
  CHECK(messageOf("[1, 2]", 8) == "x.npy: malformed .npy file: the header is not a dictionary");
  CHECK(messageOf("{descr: 1}", 8) == "x.npy: malformed .npy file: the header is not a dictionary with quoted keys");
}

TEST_CASE("every prefix of a file is an error, never a crash") {
  std::vector<std::byte> bytes = formatNpy(HostTensor::random(f32, {3, 2}, 1));
  for (size_t length = 0; length < bytes.size(); ++length)
    CHECK_FALSE(parseNpy(std::span(bytes).first(length), "x.npy"));
}

TEST_CASE("a file that cannot be opened is an error") {
  Expected<HostTensor> missing = readNpy("/nonexistent/x.npy");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "/nonexistent/x.npy: cannot be read: No such file or directory");
}

TEST_CASE("what has no end is read no further than its header says") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("attune-npy-fifo-" + std::to_string(getpid()))).string();
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::thread writer([&] {
    const std::vector<std::byte> start = file("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,)}", 0);
    const std::vector<char> zeros(1 << 16);
    signal(SIGPIPE, SIG_IGN);
    std::ofstream pipe(path, std::ios::binary);
    pipe.write(reinterpret_cast<const char *>(start.data()), std::streamsize(start.size()));
    while (pipe)
      pipe.write(zeros.data(), zeros.size());
  });
  Expected<HostTensor> endless = readNpy(path);
  writer.join();
  std::filesystem::remove(path);
  REQUIRE_FALSE(endless);
  CHECK(endless.error().message == path + ": malformed .npy file: the file goes on after its 4000000 bytes of data");
  Expected<HostTensor> zeros = readNpy("/dev/zero");
  REQUIRE_FALSE(zeros);
  CHECK(zeros.error().message ==
        "/dev/zero: not a .npy file: it does not start with \\x93NUMPY; write it with numpy.save");
  std::vector<std::byte> longHeader = file("", 8, 2);
  const uint32_t headerBytes = 5000000;
  std::memcpy(longHeader.data() + 8, &headerBytes, 4);
  CHECK(messageOf(longHeader) == "x.npy: malformed .npy file: the header has 5000000 bytes, the most is 1048576");
}

TEST_CASE("narrowing rounds to nearest even") {
  CHECK(narrowBits(bf16, 1.0) == 0x3F80);
  CHECK(narrowBits(bf16, 1.00390625) == 0x3F80);           // half way, to even
  CHECK(narrowBits(bf16, 1.01171875) == 0x3F82);           // half way, to even
  CHECK(narrowBits(bf16, 1.00390625 + 0x1p-50) == 0x3F81); // in one step, not by way of f32
  CHECK(narrowBits(f16, 65504) == 0x7BFF);
  CHECK(narrowBits(f16, 65519.9) == 0x7BFF);
  CHECK(narrowBits(f16, 65520) == 0x7C00);
  CHECK(narrowBits(f16, 1e300) == 0x7C00);
  CHECK(narrowBits(f16, 0x1p-24) == 1);
  CHECK(narrowBits(f16, 0x1p-25) == 0);
  CHECK(narrowBits(f16, 0x1.8p-25) == 1);
  CHECK(narrowBits(f16, -0x1p-14) == 0x8400);
  CHECK(narrowBits(bf16, -std::numeric_limits<double>::infinity()) == 0xFF80);
  CHECK(std::isnan(widenBits(f16, narrowBits(f16, std::nan("")))));
  CHECK(std::isnan(widenBits(bf16, narrowBits(bf16, std::nan("")))));
}

TEST_CASE("every narrow value survives widening, and roundTo agrees with narrowBits") {
  for (DType dtype : {f16, bf16})
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      float value = widenBits(dtype, uint16_t(bits));
      if (std::isnan(value))
        continue;
      bool same = narrowBits(dtype, value) == bits &&
                  std::bit_cast<uint32_t>(roundTo(dtype, value)) == std::bit_cast<uint32_t>(value);
      float between = value * 1.0021f;
      same &= std::bit_cast<uint32_t>(roundTo(dtype, between)) ==
              std::bit_cast<uint32_t>(widenBits(dtype, narrowBits(dtype, between)));
      if (!same)
        FAIL(name(dtype) << " bits " << bits);
    }
}

namespace {

/// The definition, one element at a time: Marsaglia's polar method on randomBits(seed, i, attempt), with log(m * 2^e)
/// by the series of atanh.
double normalElement(uint64_t seed, uint64_t i) {
#pragma STDC FP_CONTRACT OFF
  for (uint32_t attempt = 0;; ++attempt) {
    const uint64_t bits = randomBits(seed, i, attempt);
    const double x = (double(uint32_t(bits)) + 0.5) * 0x1p-31 - 1,
                 y = (double(uint32_t(bits >> 32)) + 0.5) * 0x1p-31 - 1;
    const double xx = x * x, yy = y * y, square = xx + yy;
    if (square >= 1)
      continue;
    int exponent;
    double mantissa = std::frexp(square, &exponent);
    if (mantissa < 0.70710678118654752)
      mantissa *= 2, --exponent;
    const double z = (mantissa - 1) / (mantissa + 1), zz = z * z;
    double sum = 0;
    for (int term = 21; term >= 1; term -= 2) {
      const double scaled = sum * zz;
      sum = scaled + 1.0 / term;
    }
    const double fromExponent = exponent * 0.69314718055994531, fromMantissa = 2 * z * sum,
                 logarithm = fromExponent + fromMantissa;
    return x * std::sqrt(-2 * logarithm / square);
  }
}

} // namespace

TEST_CASE("each element of a random tensor is what its seed and index define") {
  for (int64_t count : {1, 15, 512, 513, 40000})
    for (uint64_t seed : {uint64_t(0), uint64_t(42), uint64_t(0xfedcba9876543210)}) {
      for (DType dtype : {f32, f16, bf16}) {
        const HostTensor tensor = HostTensor::random(dtype, {count}, seed);
        HostTensor expected = HostTensor::zeros(dtype, {count});
        for (int64_t i = 0; i < count; ++i)
          expected.set(i, normalElement(seed, uint64_t(i)));
        CHECK(tensor.data == expected.data);
      }
      for (DType dtype : {i32, i64, boolean}) {
        const HostTensor tensor = HostTensor::random(dtype, {count}, seed);
        HostTensor expected = HostTensor::zeros(dtype, {count});
        for (int64_t i = 0; i < count; ++i)
          expected.setInt(i, int64_t(randomBits(seed, uint64_t(i)) & (dtype == boolean ? 1 : 7)));
        CHECK(tensor.data == expected.data);
      }
    }
  CHECK(HostTensor::random(f32, {0, 4}, 1).data.empty());
}

TEST_CASE("random tensors have the promised distributions and the same values everywhere") {
  HostTensor normal = HostTensor::random(f32, {100000}, 42);
  double mean = 0, variance = 0, fourth = 0;
  for (double x : normal.doubles()) {
    mean += x / 1e5;
    variance += x * x / 1e5;
    fourth += x * x * x * x / 1e5;
  }
  CHECK(std::fabs(mean) < 0.02);
  CHECK(std::fabs(variance - 1) < 0.03);
  CHECK(std::fabs(fourth - 3) < 0.2);

  int64_t counts[8] = {};
  HostTensor integers = HostTensor::random(i64, {80000}, 42);
  for (int64_t i = 0; i < integers.size(); ++i) {
    REQUIRE(integers.intAt(i) >= 0);
    REQUIRE(integers.intAt(i) <= 7);
    ++counts[integers.intAt(i)];
  }
  for (int64_t count : counts)
    CHECK(std::llabs(count - 10000) < 500);
  HostTensor coins = HostTensor::random(boolean, {10000}, 42);
  int64_t heads = 0;
  for (int64_t i = 0; i < coins.size(); ++i)
    heads += coins.intAt(i);
  CHECK(std::llabs(heads - 5000) < 250);

  CHECK(same(HostTensor::random(f32, {100000}, 42), normal));
  CHECK_FALSE(same(HostTensor::random(f32, {100000}, 43), normal));
  // A longer tensor starts with the same elements.
  CHECK(HostTensor::random(f32, {5}, 42).at(4) == normal.at(4));
}

TEST_CASE("elements convert between dtypes") {
  HostTensor wide = HostTensor::fromInts(i64, {3}, std::vector<int64_t>{INT64_MAX, -3, 0});
  CHECK(wide.intAt(0) == INT64_MAX);
  CHECK(wide.converted(i32).intAt(0) == -1); // wraps
  CHECK(wide.converted(boolean).intAt(1) == 1);
  CHECK(wide.converted(f32).at(0) == 0x1p63);
  HostTensor floats = HostTensor::fromDoubles(f32, {3}, std::vector<double>{-1.75, 1e30, std::nan("")});
  CHECK(floats.converted(i32).intAt(0) == -1);
  CHECK(floats.converted(i32).intAt(1) == INT32_MAX);
  CHECK(floats.converted(i64).intAt(1) == INT64_MAX);
  CHECK(floats.converted(i64).intAt(2) == 0);
}
