//===- attune-support.cpp - The support matrix of README.md ------------------===//
//
//     attune-support                  prints the matrix
//     attune-support --check FILE     exit code 1 when FILE holds another between the markers
//     attune-support --update FILE    writes it there
//
// A cell is what the compiler answers: each feature is compiled for each target, and what is rejected is rejected here
// by the same code and the same data as for a user. The errors follow the matrix.
//
//===----------------------------------------------------------------------===//

#include "arch/ArchInfo.h"
#include "attune/attune.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <string_view>

using namespace attune;

namespace {
struct Feature {
  const char *name;
  std::function<Variant()> variant;
  CompileOptions options = {.dtype = bf16, .headDim = 64};
};

Variant plain() { return Variant("plain"); }

std::vector<Feature> features() {
  auto tensor = [](const char *name, DType dtype, int dims) { return captured(name, dtype, rank(dims)); };
  return {
      {"bf16", plain},
      {"f16", plain, {.dtype = f16, .headDim = 64}},
      {"f32", plain, {.dtype = f32, .headDim = 64}},
      {"Dqk and Dv differ", plain, {.dtype = bf16, .headDim = 96, .headDimV = 64}},
      {"head dims that are no power of two", plain, {.dtype = bf16, .headDim = 40}},
      {"score: any expression",
       [=] {
         auto cap = scalar("cap", f32);
         return Variant("score").score([&](Score s, Index, Index, Index q, Index k) {
           return attune::softcap(s, cap) + sin(cos(s)) + select(q > k, 0.5f, exp(-abs(s)));
         });
       }},
      {"score: captured tensors, gathers",
       [=] {
         auto table = tensor("table", bf16, 2);
         return Variant("gather")
             .score(bias(tensor("bias", f16, 3)))
             .score([&](Score s, Index, Index h, Index q, Index k) { return s + table[h][min(abs(q - k), 31)]; });
       }},
      {"mask: loop bounds (causal, window, prefix, sinks)",
       [] { return Variant("mask").mask(causal() && slidingWindow(1023, 0)).mask(prefixLm(64) || causal()); }},
      {"mask: any expression, documents",
       [=] { return Variant("mask").mask(causal() && documents(tensor("ids", i32, 1)) && !chunked(3)); }},
      {"block-sparse pattern", [=] { return Variant("blocks").blocks(tensor("pattern", boolean, 3), 64, 64); }},
      {"dropout", [] { return Variant("dropped").dropout(0.1f); }},
      {"softmax with a sink", [] { return Variant("sink").normaliser(normalisers::softmaxWithSink("sinks")); }},
      {"sigmoid, and scores as weights", [] { return Variant("sigmoid").normaliser(normalisers::sigmoid()); }},
      {"multi-head, grouped and multi-query", plain},
      {"gradients of Q, K and V",
       [=] {
         return Variant("trained")
             .score(bias(tensor("bias", bf16, 3)))
             .mask(causal() && documents(tensor("ids", i32, 1)));
       },
       {.dtype = bf16, .headDim = 64, .gradients = Gradients{.lse = true}, .backward = true}},
      {"gradients of captured tensors (slopes, biases, tables, sinks)",
       [=] {
         auto slopes = tensor("slopes", f32, 1), columns = tensor("columns", f16, 2), table = tensor("table", bf16, 2);
         return Variant("learned")
             .score(bias(tensor("bias", bf16, 3)))
             .score([&](Score s, Index b, Index h, Index q, Index k) {
               return s * slopes[h] + columns[b][k] + table[h][min(abs(q - k), 31)];
             })
             .normaliser(normalisers::softmaxWithSink("sinks"));
       },
       {.dtype = bf16,
        .headDim = 64,
        .gradients = Gradients{.tensors = {"slopes", "columns", "table", "bias", "sinks"}},
        .backward = true}},
      {"a backward pass from what the forward pass saves",
       [] { return Variant("saved").mask(causal()).score(attune::softcap(30)).dropout(0.1f); },
       {.dtype = bf16,
        .headDim = 64,
        .gradients = Gradients{.saving = {.save = {"dropout", "score"}}},
        .backward = true}},
      {"sequences of unlike lengths, for K, V and Q",
       [=] {
         return Variant("lengths")
             .mask(causalBottomRight())
             .keyLengths(tensor("n", i32, 1))
             .queryLengths(tensor("m", i32, 1));
       }},
      {"gradients of such sequences",
       [=] {
         return Variant("trained")
             .mask(causalBottomRight())
             .keyLengths(tensor("n", i32, 1))
             .queryLengths(tensor("m", i32, 1));
       },
       {.dtype = bf16, .headDim = 64, .gradients = Gradients{}, .backward = true}},
      {"packed sequences",
       [=] {
         return Variant("packed").mask(causal()).sequences(tensor("first_q", i32, 1), tensor("first_k", i32, 1));
       }},
      {"K and V in pages",
       [=] { return Variant("paged").keyLengths(tensor("lengths", i32, 1)).keyPages(tensor("pages", i32, 2), 64); }},
      {"packed queries with K and V in pages",
       [=] {
         return Variant("mixed")
             .mask(causalBottomRight())
             .sequences(tensor("first_q", i32, 1))
             .keyLengths(tensor("lengths", i32, 1))
             .keyPages(tensor("pages", i32, 2), 64);
       }},
      {".precise()", [] { return Variant("precise").precise().score(attune::softcap(30)); }},
      {".qOffset()", [] { return Variant("offset").qOffset().mask(causal()); }},
  };
}

/// What no target takes, and what users may ask for: the page has each with its error.
std::vector<Feature> refusals() {
  const CompileOptions trained = {.dtype = bf16, .headDim = 64, .gradients = Gradients{}, .backward = true};
  return {
      {"gradients of captured tensors of rank 0",
       [] {
         const Captured factor = captured("factor", f32, rank(0));
         return Variant("factor").score([&](Score s, Index, Index, Index, Index) { return s * factor(); });
       },
       {.dtype = bf16, .headDim = 64, .gradients = Gradients{.tensors = {"factor"}}, .backward = true}},
      {"gradients of keys in pages", [] { return Variant("paged").keyPages(captured("pages", i32, rank(2)), 64); },
       trained},
  };
}

/// Compiles as far as the target's code. One fixed field of the schedule keeps NVRTC out of its choice.
Expected<void> accepts(const Feature &feature, const Target &target) {
  CompileOptions options = feature.options;
  options.useCache = false;
  if (!options.backward)
    options.qRegisters = false;
  if (target.isCuda()) {
    Expected<std::string> cuda = emit(feature.variant(), options, target, Stage::Cuda);
    return cuda ? Expected<void>() : cuda.error();
  }
  Expected<KernelImage> image = compileImage(feature.variant(), options, target);
  return image ? Expected<void>() : image.error();
}

/// The largest head dim that has a plan, and the error of the next one; "" where all have.
std::pair<int, std::string> headDimLimit(const Target &target, DType dtype) {
  std::string next;
  for (int headDim = maxHeadDim; headDim > 0; headDim -= 8) {
    Expected<std::string> plan = explain(plain(), {.dtype = dtype, .headDim = headDim, .qRegisters = false}, target);
    if (plan)
      return {headDim, next};
    next = plan.error().message;
  }
  return {0, next};
}

/// Adds ` words`, in a new line where the one that begins at `lineBegin` would grow beyond 150 characters.
void appendWrapped(std::string &text, size_t &lineBegin, const std::string &words) {
  constexpr size_t longest = 150;
  if (text.size() + words.size() - lineBegin > longest) {
    text += "\n" + words.substr(1);
    lineBegin = text.size() - words.size() + 1;
  } else {
    text += words;
  }
}

/// `- text` as a line, or as several of at most 195 characters, broken at spaces.
std::string listItem(std::string_view text) {
  constexpr size_t longest = 195;
  std::string item = "-";
  size_t lineBegin = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (item.size() + 1 + word.size() - lineBegin > longest) {
      item += "\n ";
      lineBegin = item.size() - 1;
    }
    item += " " + std::string(word);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return item + "\n";
}

std::string matrix() {
  std::vector<Target> targets;
  std::string text = "| |", rule = "|---|", shared = "| shared memory of a block, bytes |";
  for (const ArchInfo &arch : allArchs()) {
    targets.push_back(arch.isCpu() ? Target::cpu() : Target::cuda(std::string(arch.name)));
    text += fmt::format(" {} |", arch.name);
    rule += "---|";
    shared += arch.isCpu() ? " - |" : fmt::format(" {} |", arch.sharedBytesPerBlock);
  }
  text += "\n" + rule + "\n" + shared + "\n";

  // Errors with the targets that give them, in order of appearance.
  std::vector<std::pair<std::string, std::string>> errors;
  auto note = [&](const Target &target, const std::string &message) {
    if (message.empty())
      return;
    for (auto &[known, archs] : errors)
      if (known == message) {
        archs += archs.find(target.arch) == std::string::npos ? ", " + target.arch : "";
        return;
      }
    errors.push_back({message, target.arch});
  };
  for (DType dtype : {bf16, f32}) {
    text += fmt::format("| head dims in {}, multiples of 8 up to |", name(dtype));
    for (const Target &target : targets) {
      auto [limit, next] = headDimLimit(target, dtype);
      text += fmt::format(" {} |", limit);
      note(target, next);
    }
    text += "\n";
  }
  std::string everywhere = "On all of them:";
  size_t lineBegin = 0;
  for (const Feature &feature : features()) {
    std::string row = fmt::format("| {} |", feature.name);
    bool isEverywhere = true;
    for (const Target &target : targets) {
      Expected<void> accepted = accepts(feature, target);
      row += accepted ? " yes |" : " no |";
      isEverywhere &= bool(accepted);
      if (!accepted)
        note(target, accepted.error().message);
    }
    if (isEverywhere)
      appendWrapped(everywhere, lineBegin, fmt::format(" {};", feature.name));
    else
      text += row + "\n";
  }
  everywhere.back() = '.';
  text += "\n" + everywhere + "\n\n";
  for (const auto &[message, archs] : errors)
    text += listItem(fmt::format("{}: {}", archs, message));
  if (Expected<const ArchInfo *> arch = archInfo("sm_100a"); !arch)
    text += listItem(arch.error().message);
  text += "\nNot supported yet, with the error that says so:\n\n";
  for (const Feature &feature : refusals()) {
    Expected<void> accepted = accepts(feature, Target::cuda("sm_90"));
    text += listItem(fmt::format("{}: {}", feature.name, accepted ? "supported by now" : accepted.error().message));
  }
  return text;
}
} // namespace

int main(int argc, char **argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (argc != 1 && verb != "--check" && verb != "--update") {
    std::fprintf(stderr, "usage: attune-support [--check FILE | --update FILE]\n");
    return 2;
  }
  const std::string current = matrix();
  if (argc == 1) {
    std::fwrite(current.data(), 1, current.size(), stdout);
    if (std::fflush(stdout) == 0 && !std::ferror(stdout))
      return 0;
    std::perror("error: standard output cannot be written");
    return 1;
  }
  std::ifstream input(argv[2]);
  std::string page{std::istreambuf_iterator<char>(input), {}};
  const std::string open = "<!-- support: written by attune-support -->\n", close = "<!-- /support -->";
  const size_t begin = page.find(open), end = page.find(close);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    fmt::print(stderr, "{} has no {}...{}\n", argv[2], open, close);
    return 1;
  }
  const size_t at = begin + open.size();
  if (page.substr(at, end - at) == current)
    return 0;
  if (verb == "--check") {
    fmt::print(stderr, "the support matrix of {} is stale; run attune-support --update {}. It is now\n{}", argv[2],
               argv[2], current);
    return 1;
  }
  std::ofstream output(argv[2]);
  output << page.replace(at, end - at, current);
  output.close();
  if (output)
    return 0;
  fmt::print(stderr, "error: {} cannot be written: {}\n", argv[2], std::strerror(errno));
  return 1;
}
