//===- RunData.h - The flags and the tensors of attune run ----------------===//
#pragma once

#include "tools/attune/Options.h"
#include "tools/reference/Npy.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune::cli {

struct RunFlags : Flags {
  std::string q, k, v;
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::string dump;
  bool checked = false;
  bool noCheck = false;
  int repeats = 0;
  bool prepare = false;
  bool keepTables = false;
  int simulate = 0; ///< orders of events; 0: run
  /// Of a program (RunProgram.h): AXIS=N, NAME=SOURCE and NAME=PATH.npy.
  std::vector<std::string> extents, operands, expected;
  std::optional<double> tolerance;
};

/// Everything that a launch reads and writes, on the host.
struct RunData {
  Shape shape;
  reference::HostTensor q, k, v, o, lse;
  /// What a launch takes as k and v where keys lie in pages.
  std::optional<reference::HostTensor> keyPages, valuePages;
  bool hasLse = true; ///< else the kernel has no such operand
  std::map<std::string, reference::HostTensor> tensors, scalars;
  /// Operands of the backward pass beside those above: do, dlse, dq, dk, dv, grads.NAME.
  std::map<std::string, reference::HostTensor> ofBackward;
  /// What the forward pass leaves for the backward pass: saved.NAME.
  std::map<std::string, reference::HostTensor> saved;
  /// The operands of a program (RunProgram.h), by name, in the place of all those above; and those that it writes.
  std::map<std::string, reference::HostTensor> operands;
  std::vector<std::string> written;
  /// Of a program's axes without a fixed size.
  std::map<std::string, int64_t> extents;

  const reference::HostTensor &launchedKeys() const { return keyPages ? *keyPages : k; }
  const reference::HostTensor &launchedValues() const { return valuePages ? *valuePages : v; }
  /// What a launch writes.
  std::vector<std::pair<std::string, reference::HostTensor *>> results() {
    if (!operands.empty()) {
      std::vector<std::pair<std::string, reference::HostTensor *>> outputs;
      for (const std::string &name : written)
        outputs.push_back({name, &operands.at(name)});
      return outputs;
    }
    if (ofBackward.empty())
      return {{"o", &o}, {"lse", &lse}};
    std::vector<std::pair<std::string, reference::HostTensor *>> gradients;
    for (auto &[name, tensor] : ofBackward)
      if (name != "do" && name != "dlse")
        gradients.push_back({name, &tensor});
    return gradients;
  }
  /// All bits set is a NaN in f32, f16 and bf16: what the kernel does not write shows.
  void poisonResults() {
    for (auto [name, tensor] : results())
      std::fill(tensor->data.begin(), tensor->data.end(), std::byte(0xff));
  }
};

/// q, k and v of --q, --k and --v, and the shape they give; nullopt without these flags.
Result<std::optional<RunData>> readInputs(const RunFlags &flags);

/// Allocates and fills every tensor of a launch of data.shape: the user's where they are `given`, random ones otherwise.
/// Results are poisoned. Errors: a tensor or scalar without data, sizes that do not fit together, too little memory.
Expected<void> fillData(const RunFlags &flags, const Request &request, const KernelSignature &signature, bool given,
                        RunData &data);

} // namespace attune::cli
