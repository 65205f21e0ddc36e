//===- Exported.h - An exported kernel, compiled and loaded -----------------===//
#pragma once

#include "attune/Compile.h"
#include "driver/Export.h"
#include "tests/export/Problem.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

/// Files of exportKernel in a folder of their own, compiled by the C compiler together with a caller that uses the
/// header as a user does.
class Exported {
public:
  explicit Exported(const std::vector<attune::KernelImage> &images,
                    const attune::ExportOptions &options = {.name = "kernel"});
  Exported(const Exported &) = delete;
  ~Exported();

  int launch(const Problem &problem) const { return launchFunction(&problem); }
  int load() const { return loadFunction(); }
  size_t workspaceBytes(const Problem &problem) const { return workspaceFunction(&problem); }
  std::string error() const { return errorFunction(); }
  /// Extents, strides and which operands are not null, as NAME_defaults writes them for the extents of `problem`.
  Problem defaults(const Problem &problem) const {
    Problem result;
    defaultsFunction(&problem, &result);
    return result;
  }

private:
  std::string folder;
  void *library = nullptr;
  int (*launchFunction)(const Problem *) = nullptr;
  int (*loadFunction)() = nullptr;
  size_t (*workspaceFunction)(const Problem *) = nullptr;
  const char *(*errorFunction)() = nullptr;
  void (*defaultsFunction)(const Problem *, Problem *) = nullptr;
};

/// The operands that a launch is given: those in the workspace come behind.
inline std::span<const attune::OperandParam> given(const attune::KernelSignature &signature) {
  const auto kept = std::ranges::find(signature.operands, attune::OperandRole::Workspace, &attune::OperandParam::role);
  return {signature.operands.begin(), kept};
}

/// The kernel as compilation makes it, but for the cubin, which the fake driver does not read: needs no NVRTC. The fake
/// driver's entry points.
attune::KernelImage imageWithoutCubin(const attune::Variant &variant, const attune::CompileOptions &options,
                                      const std::string &arch);
