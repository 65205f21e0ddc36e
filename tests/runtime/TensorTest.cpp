#include "attune/Tensor.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

using namespace attune;

TEST_CASE("tensor views", "[tensor]") {
  float data[24];
  Tensor t = Tensor::contiguous(data, f32, {2, 3, 4});
  CHECK(t.rank == 3);
  CHECK(t.strides[0] == 12);
  CHECK(t.strides[2] == 1);
  CHECK(t.elements() == 24);
  CHECK(t.text() == "f32[2, 3, 4] on cpu");
  Tensor p = t.permuted({2, 0, 1});
  CHECK(p.shape[0] == 4);
  CHECK(p.strides[0] == 1);
  CHECK(p.strides[1] == 12);
  Tensor b = Tensor::contiguous(data, f32, {1, 4}).broadcast(0, 8);
  CHECK(b.shape[0] == 8);
  CHECK(b.strides[0] == 0);
  Tensor scalar = Tensor::contiguous(data, f32, {});
  CHECK(scalar.rank == 0);
  CHECK(scalar.elements() == 1);
  CHECK(scalar.text() == "f32[] on cpu");
  CHECK(Tensor::contiguous(nullptr, bf16, {2, 0, 4}).strides[0] == 4);
  CHECK(Tensor::strided(data, i32, {2, 2}, {-1, 5}, Device::cuda(3)).text() == "i32[2, 2] on cuda:3");
}

namespace {
// dlpack.h of DLPack 1.0, written down independently of Tensor.cpp.
struct Type {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DL {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  Type dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct Managed {
  DL tensor;
  void *context;
  void (*deleter)(Managed *);
};
struct Versioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(Versioned *);
  uint64_t flags;
  DL tensor;
};
} // namespace

TEST_CASE("DLPack", "[tensor]") {
  std::vector<float> data(100);
  int64_t shape[9] = {2, 3, 4, 1, 1, 1, 1, 1, 1}, strides[3] = {1, 2, 6};
  Managed managed = {{data.data(), {1, 0}, 3, {2, 32, 1}, shape, strides, 8}, nullptr, nullptr};
  auto message = [&] { return fromDLPack(&managed).error().message; };

  SECTION("strides and offset") {
    Expected<Tensor> t = fromDLPack(&managed);
    REQUIRE(t);
    CHECK(t->data == data.data() + 2);
    CHECK(t->dtype == f32);
    CHECK(t->strides[2] == 6);
    CHECK(t->device == Device::cpu());
  }
  SECTION("no strides is row-major") {
    managed.tensor.strides = nullptr;
    CHECK(fromDLPack(&managed)->strides[0] == 12);
  }
  SECTION("devices") {
    managed.tensor.device = {2, 3};
    CHECK(fromDLPack(&managed)->device == Device::cuda(3));
    managed.tensor.device = {13, 1};
    CHECK(fromDLPack(&managed)->device == Device::cuda(1));
    managed.tensor.device = {3, 0};
    CHECK(fromDLPack(&managed)->device == Device::cpu());
    managed.tensor.device = {10, 0};
    CHECK(message() == "the DLPack tensor is on a device of type 10; move it to the CPU or a CUDA device");
  }
  SECTION("types") {
    struct Row {
      Type type;
      DType dtype;
    };
    for (Row row : {Row{{2, 16, 1}, f16}, Row{{4, 16, 1}, bf16}, Row{{0, 32, 1}, i32}, Row{{0, 64, 1}, i64},
                    Row{{6, 8, 1}, boolean}}) {
      managed.tensor.dtype = row.type;
      CHECK(fromDLPack(&managed)->dtype == row.dtype);
    }
    managed.tensor.dtype = {2, 64, 1};
    CHECK(message() == "the DLPack tensor is float64; convert it to f32, f16, bf16, i32, i64 or bool");
    managed.tensor.dtype = {1, 8, 1};
    CHECK(message() == "the DLPack tensor is uint8; convert it to f32, f16, bf16, i32, i64 or bool");
    managed.tensor.dtype = {5, 64, 1};
    CHECK(message() == "the DLPack tensor is complex64; convert it to f32, f16, bf16, i32, i64 or bool");
    managed.tensor.dtype = {10, 8, 1};
    CHECK(message() ==
          "the DLPack tensor is of type code 10 with 8 bits; convert it to f32, f16, bf16, i32, i64 or bool");
    managed.tensor.dtype = {2, 32, 4};
    CHECK(message() == "the DLPack tensor has 4 lanes, required is 1; add a dimension instead");
  }
  SECTION("shape") {
    managed.tensor.ndim = 9;
    CHECK(message() == "the DLPack tensor has 9 dimensions, the most is 8; reshape it");
    managed.tensor.ndim = 2;
    managed.tensor.shape = nullptr;
    CHECK(message() == "the DLPack tensor has dimensions but no shape; it was not filled in by its producer");
    managed.tensor.ndim = 0;
    CHECK(fromDLPack(&managed)->rank == 0);
  }
  SECTION("null") {
    CHECK(fromDLPack(nullptr).error().message == "the DLPack tensor is null; pass the pointer that the capsule holds");
    CHECK(fromDLPackVersioned(nullptr).error().message ==
          "the DLPack tensor is null; pass the pointer that the capsule holds");
  }
  SECTION("versioned") {
    Versioned versioned = {1, 1, nullptr, nullptr, 0, managed.tensor};
    CHECK(fromDLPackVersioned(&versioned)->shape[1] == 3);
    versioned.major = 2;
    CHECK(fromDLPackVersioned(&versioned).error().message ==
          "the DLPack tensor has version 2.1, required is 1.x; ask its producer for that version");
  }
}
