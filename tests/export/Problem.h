/*===- Problem.h - One launch, for the library and for an exported kernel ---===*/
#ifndef ATTUNE_TESTS_EXPORT_PROBLEM_H
#define ATTUNE_TESTS_EXPORT_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  const void *data;
  int64_t shape[4], strides[4];
} ProblemTensor;

typedef struct {
  void *operands[16]; /* in the signature's order; null where left out */
  int64_t strides[16][5];
  int64_t extents[8]; /* of KernelSignature::axes() */
  float dropout;
  uint64_t seed, offset;
  const uint64_t *seedPointer, *offsetPointer;
  int32_t qOffset;
  uint64_t scalars[8]; /* slots */
  ProblemTensor tensors[8];
  void *workspace;
  size_t workspaceBytes;
  void *stream;
} Problem;

#endif
