#include "runtime/Cubin.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <optional>

using namespace attune;

namespace {

// ELF-64 structs of the System V gABI. Fields are read without a byte swap, because cubins and all hosts are
// little-endian.
struct ElfHeader {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, programOffset, sectionOffset;
  uint32_t flags;
  uint16_t headerSize, programEntrySize, programCount, sectionEntrySize, sectionCount, sectionNames;
};
struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entrySize;
};
struct Symbol {
  uint32_t name;
  unsigned char info, other;
  uint16_t section;
  uint64_t value, size;
};
static_assert(sizeof(ElfHeader) == 64 && sizeof(SectionHeader) == 64 && sizeof(Symbol) == 24);

constexpr int machineCuda = 190;
constexpr int abiVersionByte = 8;     // index in ElfHeader::ident; its value is 7 up to CUDA 12, 8 in CUDA 13
constexpr uint32_t sectionNoBits = 8; // SHT_NOBITS
constexpr uint32_t sectionSymbols = 2;
constexpr int symbolFunction = 2;         // STT_FUNC
constexpr unsigned char entryFlag = 0x10; // STO_CUDA_ENTRY in st_other
// Bytes of shared memory that the CUDA system reserves per block; .nv.shared.<kernel> includes them from sm_90 on.
constexpr size_t reservedShared = 1024;

// .nv.info is a sequence of attributes. Each has a format byte, an attribute byte, and a value by format:
//   1: no value | 2: one byte and padding | 3: two bytes | 4: a 16-bit size and as many bytes
enum AttributeFormat : uint8_t { formatSized = 4 };
enum Attribute : uint8_t {
  attributeFrameSize = 0x11,    // value {symbol, bytes}: the stack frame of a function
  attributeMinStackSize = 0x12, // value {symbol, bytes}: the frames of the kernel and its callees together
  // Value {index, ordinal | offset << 16, bytes << 18 | ...}; padding may precede the first parameter
  attributeParamInfo = 0x17,
  attributeRegCount = 0x2f, // value {symbol, registers per thread}
};

class CubinReader {
public:
  explicit CubinReader(std::span<const char> file) : file(file) {}

  /// The object at `offset`; nullopt where the object would reach past the end of the file.
  template <typename T> std::optional<T> read(uint64_t offset) const {
    if (offset > file.size() || file.size() - offset < sizeof(T))
      return std::nullopt;
    T value;
    std::memcpy(&value, file.data() + offset, sizeof(T));
    return value;
  }

  /// The bytes of a section; nullopt where the section reaches past the end of the file.
  std::optional<std::span<const char>> contents(const SectionHeader &section) const {
    if (section.type == sectionNoBits)
      return std::span<const char>();
    if (section.offset > file.size() || file.size() - section.offset < section.size)
      return std::nullopt;
    return file.subspan(section.offset, section.size);
  }

private:
  std::span<const char> file;
};

/// The zero-terminated string at `offset` of a string table.
std::optional<std::string_view> stringAt(std::span<const char> table, uint64_t offset) {
  if (offset >= table.size())
    return std::nullopt;
  const char *begin = table.data() + offset;
  const void *end = std::memchr(begin, 0, table.size() - offset);
  if (!end)
    return std::nullopt;
  return std::string_view(begin, size_t(static_cast<const char *>(end) - begin));
}

Error damaged(std::string_view what) {
  return Error{fmt::format("the cubin is damaged: {}; compile the kernel again", what)};
}

uint32_t word(std::span<const char> bytes, size_t offset) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + offset, 4);
  return value;
}

/// Calls visit(attribute, value) for every attribute of an .nv.info section; returns false where the section is
/// truncated.
template <typename Visit> bool forEachAttribute(std::span<const char> info, Visit &&visit) {
  while (!info.empty()) {
    if (info.size() < 4)
      return false;
    auto format = uint8_t(info[0]), attribute = uint8_t(info[1]);
    size_t size = uint8_t(info[2]) | size_t(uint8_t(info[3])) << 8;
    if (format == formatSized) {
      if (info.size() - 4 < size)
        return false;
      visit(attribute, info.subspan(4, size));
      info = info.subspan(4 + size);
    } else {
      visit(attribute, info.subspan(2, 2));
      info = info.subspan(4);
    }
  }
  return true;
}

/// The ELF header of a cubin.
Expected<ElfHeader> headerOf(const CubinReader &reader) {
  std::optional<ElfHeader> header = reader.read<ElfHeader>(0);
  if (!header || std::memcmp(header->ident, "\177ELF\2\1", 6) != 0)
    return damaged("it is not a 64-bit ELF file");
  if (header->machine != machineCuda)
    return damaged(fmt::format("its machine is {}, required is {} (CUDA)", header->machine, machineCuda));
  if (header->sectionEntrySize != sizeof(SectionHeader))
    return damaged("its section headers have another size");
  return *header;
}

/// The architecture's number. e_flags has it in bits 0-7 up to ABI version 7, in bits 8-15 from version 8 on.
int archOf(const ElfHeader &header) {
  return header.ident[abiVersionByte] >= 8 ? (header.flags >> 8) & 0xff : header.flags & 0xff;
}

Expected<std::vector<SectionHeader>> sectionsOf(const CubinReader &reader, const ElfHeader &header) {
  std::vector<SectionHeader> sections;
  for (int i = 0; i < header.sectionCount; ++i) {
    uint64_t at = header.sectionOffset + uint64_t(i) * sizeof(SectionHeader);
    std::optional<SectionHeader> section = at < header.sectionOffset ? std::nullopt : reader.read<SectionHeader>(at);
    if (!section)
      return damaged("its section headers are cut off");
    sections.push_back(*section);
  }
  if (header.sectionNames >= sections.size())
    return damaged("it has no section names");
  return sections;
}

/// The kernels of a cubin, and the index of each one's symbol in the symbol table.
struct KernelTable {
  std::vector<CubinKernel> kernels;
  std::vector<uint32_t> symbols;

  CubinKernel *ofSymbol(uint32_t symbol) {
    auto found = std::find(symbols.begin(), symbols.end(), symbol);
    return found == symbols.end() ? nullptr : &kernels[size_t(found - symbols.begin())];
  }
  CubinKernel *named(std::string_view name) {
    auto found = std::find_if(kernels.begin(), kernels.end(), [&](const CubinKernel &k) { return k.name == name; });
    return found == kernels.end() ? nullptr : &*found;
  }
};

/// The kernels that the symbol table lists. A kernel's number of registers is in the header of its section.
Expected<KernelTable> kernelsOf(const CubinReader &reader, const std::vector<SectionHeader> &sections) {
  auto table = std::find_if(sections.begin(), sections.end(),
                            [](const SectionHeader &section) { return section.type == sectionSymbols; });
  if (table == sections.end() || table->link >= sections.size())
    return damaged("it has no symbols");
  std::optional<std::span<const char>> symbolBytes = reader.contents(*table);
  std::optional<std::span<const char>> symbolNames = reader.contents(sections[table->link]);
  if (!symbolBytes || !symbolNames)
    return damaged("its symbols are cut off");
  KernelTable result;
  for (size_t i = 0; (i + 1) * sizeof(Symbol) <= symbolBytes->size(); ++i) {
    Symbol symbol;
    std::memcpy(&symbol, symbolBytes->data() + i * sizeof(Symbol), sizeof(Symbol));
    if ((symbol.info & 15) != symbolFunction || !(symbol.other & entryFlag))
      continue;
    std::optional<std::string_view> name = stringAt(*symbolNames, symbol.name);
    if (!name || symbol.section >= sections.size())
      return damaged("a kernel's symbol points outside the file");
    CubinKernel &kernel = result.kernels.emplace_back();
    kernel.name = *name;
    kernel.registers = int(sections[symbol.section].info >> 24);
    result.symbols.push_back(uint32_t(i));
  }
  return result;
}

/// Reads an .nv.info section into `table`: the registers and stack frames of the kernels that its attributes name. If
/// the section belongs to one kernel, that kernel is `own`, and the size of its parameters is read too. `own` is null
/// for the section of the whole file. Returns false where the section is truncated.
bool addAttributes(std::span<const char> info, CubinKernel *own, KernelTable &table) {
  int paramsBegin = std::numeric_limits<int>::max(), paramsEnd = 0;
  bool whole = forEachAttribute(info, [&](uint8_t attribute, std::span<const char> value) {
    if (attribute == attributeParamInfo && value.size() == 12) {
      const int offset = int(word(value, 4) >> 16);
      paramsBegin = std::min(paramsBegin, offset);
      paramsEnd = std::max(paramsEnd, offset + int(word(value, 8) >> 18));
    }
    if (value.size() != 8)
      return;
    CubinKernel *kernel = table.ofSymbol(word(value, 0));
    if (!kernel)
      return;
    int amount = int(word(value, 4));
    if (attribute == attributeRegCount)
      kernel->registers = amount;
    else if (attribute == attributeFrameSize || attribute == attributeMinStackSize)
      kernel->frameBytes = std::max(kernel->frameBytes, amount);
  });
  if (own && paramsEnd)
    own->paramBytes = paramsEnd - paramsBegin;
  return whole;
}

} // namespace

Expected<std::vector<CubinKernel>> attune::readCubin(std::span<const char> cubin) {
  CubinReader reader(cubin);
  Expected<ElfHeader> header = headerOf(reader);
  if (!header)
    return header.error();
  Expected<std::vector<SectionHeader>> sections = sectionsOf(reader, *header);
  if (!sections)
    return sections.error();
  std::optional<std::span<const char>> names = reader.contents((*sections)[header->sectionNames]);
  if (!names)
    return damaged("its section names are cut off");
  Expected<KernelTable> table = kernelsOf(reader, *sections);
  if (!table)
    return table.error();

  for (const SectionHeader &section : *sections) {
    std::string_view name = stringAt(*names, section.name).value_or("");
    constexpr std::string_view infoPrefix = ".nv.info", sharedPrefix = ".nv.shared.";
    if (name.starts_with(sharedPrefix)) {
      if (CubinKernel *kernel = table->named(name.substr(sharedPrefix.size())))
        kernel->staticSharedBytes =
            archOf(*header) >= 90 ? section.size - std::min(section.size, reservedShared) : section.size;
      continue;
    }
    if (name != infoPrefix && !name.starts_with(".nv.info."))
      continue;
    std::optional<std::span<const char>> info = reader.contents(section);
    if (!info)
      return damaged(fmt::format("section {} is cut off", name));
    CubinKernel *own = name == infoPrefix ? nullptr : table->named(name.substr(infoPrefix.size() + 1));
    if (!addAttributes(*info, own, *table))
      return damaged(fmt::format("section {} ends within an attribute", name));
  }
  if (table->kernels.empty())
    return Error{"the cubin holds no kernel; declare the entry as extern \"C\" __global__"};
  return std::move(table->kernels);
}

Expected<CubinKernel> attune::readCubin(std::span<const char> cubin, std::string_view entry) {
  Expected<std::vector<CubinKernel>> kernels = readCubin(cubin);
  if (!kernels)
    return kernels.error();
  std::string names;
  for (CubinKernel &kernel : *kernels) {
    if (kernel.name == entry)
      return std::move(kernel);
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", kernel.name);
  }
  return Error{fmt::format("the cubin has no kernel '{}'; it has {}", entry, names)};
}
