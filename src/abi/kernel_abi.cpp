// One list of fields serves writing, reading, and the bytes that names of code hash: call_fields() and other_fields().
#include "tessera/abi/kernel_abi.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "tessera/base/format.hpp"

namespace tessera::calling {
namespace {

constexpr int kMaxBlocks = 0x7FFFFFFF;  // of a grid along x

class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(BytesOut& out) : out_(out) {}
  void field(bool value) { out_.number(static_cast<std::uint8_t>(value)); }
  void field(int value) { out_.number(static_cast<std::uint32_t>(value)); }
  void field(std::int64_t value) { out_.number(static_cast<std::uint64_t>(value)); }
  void field(const std::string& value) { out_.text(value); }
  std::size_t count(std::size_t size) {
    out_.number(static_cast<std::uint32_t>(size));
    return size;
  }
  void place(const SourceLocation& where) {
    out_.text(where.file);
    out_.text(where.function);
    out_.number(where.line);
    out_.number(where.column);
  }
  bool good() const { return true; }

 private:
  BytesOut& out_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(BytesIn& in) : in_(in) {}
  void field(bool& value) { value = in_.number<std::uint8_t>() != 0; }
  void field(int& value) { value = static_cast<int>(in_.number<std::uint32_t>()); }
  void field(std::int64_t& value) { value = static_cast<std::int64_t>(in_.number<std::uint64_t>()); }
  void field(std::string& value) { value = in_.text(); }
  std::size_t count(std::size_t) { return in_.number<std::uint32_t>(); }
  /// The texts are put where they belong by keep_places().
  void place(SourceLocation& where) {
    std::string file = in_.text();
    places_.push_back({std::move(file), in_.text()});
    where.line = in_.number<std::uint32_t>();
    where.column = in_.number<std::uint32_t>();
  }
  bool good() const { return in_.good(); }
  /// Texts of source locations live as long as the process, so this is done for what can be used only.
  void keep_places(std::vector<Check>& checks) {
    for (std::size_t i = 0; i < checks.size(); ++i) {
      checks[i].where.file = interned(std::move(places_[i][0]));
      checks[i].where.function = interned(std::move(places_[i][1]));
    }
  }

 private:
  static const char* interned(std::string text) {
    static std::mutex mutex;
    static auto* const all = new std::unordered_set<std::string>;
    const std::lock_guard lock(mutex);
    return all->insert(std::move(text)).first->c_str();
  }
  BytesIn& in_;
  std::vector<std::array<std::string, 2>> places_;  // of the checks: file and function
};

/// `each` element of a list whose length was announced as `count`. A reader appends one by one: a count that is wrong
/// must not ask for memory.
template <class Stream, class List, class Each>
void elements(Stream& s, List& list, std::size_t count, Each&& each) {
  if constexpr (Stream::kReads) {
    for (; count != 0 && s.good(); --count) each(list.emplace_back());
  } else {
    for (auto& element : list) each(element);
  }
}

/// What a launch passes. Returns the number of checks, whose texts are not part of it.
template <class Stream, class Abi>
std::size_t call_fields(Stream& s, Abi& abi) {
  s.field(abi.num_args);
  elements(s, abi.watched, s.count(abi.watched.size()), [&](auto& w) {
    s.field(w.arg);
    s.field(w.access);
    s.field(w.element_bytes);
  });
  s.field(abi.launch_flags);
  elements(s, abi.early_reads, s.count(abi.early_reads.size()), [&](auto& argument) { s.field(argument); });
  s.field(abi.early_alone);
  s.field(abi.pieces);
  s.field(abi.grid.used);
  for (auto* axis : {&abi.grid.x, &abi.grid.y}) {
    s.field(axis->argument);
    s.field(axis->extent);
  }
  return s.count(abi.checks.size());
}

template <class Stream, class Abi>
void other_fields(Stream& s, Abi& abi, std::size_t checks) {
  s.field(abi.entry);
  s.field(abi.programmatic_launch);
  s.field(abi.persistent_blocks);
  elements(s, abi.checks, checks, [&](auto& check) {
    s.field(check.message);
    s.place(check.where);
  });
}

}  // namespace

std::size_t implicit_arguments(const KernelAbi& abi) noexcept {
  return abi.watched.size() + (abi.launch_flags ? 1 : 0) + (abi.checks.empty() ? 0 : 1);
}

std::string fault_of(const KernelAbi& abi) {
  const auto expected = [](const auto& what, const auto& found) {
    return concat("expected ", what, ", found ", found);
  };
  const auto is_argument = [&](int n) { return n >= 0 && n < abi.num_args; };
  if (abi.entry.empty()) return "expected the name of an entry, found none";
  const std::size_t given = static_cast<std::size_t>(std::max(abi.num_args, 0)) + abi.watched.size();
  if (abi.num_args < 0 || given > kMaxArguments)
    return expected(concat("0 to ", kMaxArguments, " arguments"),
                    abi.num_args < 0 ? concat(abi.num_args) : concat(given));
  const std::string arguments = concat(" of its ", abi.num_args, " arguments, numbered from 0");
  for (const WatchedArgument& w : abi.watched) {
    if (!is_argument(w.arg)) return expected("a watched argument" + arguments, concat("argument ", w.arg));
    if (w.access < 0 || w.element_bytes < 1)
      return expected("an access and a size for each watched argument", concat(w.access, " and ", w.element_bytes));
  }
  const std::size_t early = abi.early_reads.size();
  if (early > kMaxEarlyReads) return expected(concat("at most ", kMaxEarlyReads, " early reads"), early);
  if (early != 0 && !abi.launch_flags) return expected("launch flags for its early reads", "none");
  if (abi.early_alone < 0 || static_cast<std::size_t>(abi.early_alone) > early)
    return expected(concat("at most its ", early, " early reads to be read alone"), abi.early_alone);
  for (const int argument : abi.early_reads)
    if (!is_argument(argument)) return expected("early reads" + arguments, concat("argument ", argument));
  for (const GridAxis& axis : {abi.grid.x, abi.grid.y}) {
    if (axis.argument != -1 && !is_argument(axis.argument))
      return expected("an axis of the grid" + arguments, concat("argument ", axis.argument));
    if (axis.extent < 1) return expected("an axis of the grid with an extent of at least 1", axis.extent);
  }
  if (abi.pieces < 1) return expected("a block of at least 1 piece", abi.pieces);
  if (abi.persistent_blocks < 1)
    return expected(concat("1 to ", kMaxBlocks, " blocks that fill the device"), abi.persistent_blocks);
  return {};
}

std::vector<std::byte> call_bytes(const KernelAbi& abi) {
  BytesOut out;
  Writer writer(out);
  call_fields(writer, abi);
  return out.take();
}

void write(BytesOut& out, const KernelAbi& abi) {
  Writer writer(out);
  other_fields(writer, abi, call_fields(writer, abi));
}

bool read(BytesIn& in, KernelAbi& abi) {
  Reader reader(in);
  other_fields(reader, abi, call_fields(reader, abi));
  if (!in.good() || !fault_of(abi).empty()) return false;
  reader.keep_places(abi.checks);
  return true;
}

}  // namespace tessera::calling
