// tessera run: runs an entry of a file of Tile IR on the CPU, over arrays in .npy files.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

#include "command_rows.hpp"
#include "ir_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/host/npy.hpp"
#include "tessera/host/operand.hpp"
#include "tessera/ir/semantics.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera {
namespace {

constexpr int kMaxAxes = 8;                                   // of a .npy file
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of a new array

struct RunOptions {
  std::string file, entry;
  std::vector<std::string> values;  ///< of the entry's arguments
  cpu::Grid grid;
  bool tensors = false, checked = false;
};

/// An array that a pointer argument points to.
struct Array {
  runtime::StorageRef storage;
  std::vector<std::int64_t> dims, strides;
  ElementType element{};
  std::string label;                  ///< in errors
  std::string output;                 ///< the file to write afterwards; empty: none
  std::vector<std::uint8_t> written;  ///< for checked mode, one byte per byte
  std::size_t bytes() const {
    std::size_t n = static_cast<std::size_t>(size_of(element));
    for (const std::int64_t d : dims) n *= static_cast<std::size_t>(d);
    return n;
  }
};

constexpr ElementType kElements[] = {  // of .npy files
    ElementType::f64, ElementType::f32, ElementType::f16, ElementType::i64, ElementType::i32, ElementType::i16,
    ElementType::i8,  ElementType::u64, ElementType::u32, ElementType::u16, ElementType::u8,  ElementType::boolean};

/// Elements of .npy files whose bits are those of the element that a pointer points to.
std::vector<ElementType> elements_of(ir::Elem e) {
  std::vector<ElementType> same;
  for (const ElementType t : kElements)
    if (ir::elem_of(t) == e) same.push_back(t);
  if (!same.empty()) return same;
  if (e == ir::Elem::TF32) return {ElementType::f32};
  return {ir::info(e).bytes == 2 ? ElementType::u16 : ElementType::u8};  // as bits
}

std::string names_of(const std::vector<ElementType>& elements) {
  std::string names;
  for (const ElementType t : elements) names += concat(names.empty() ? "" : " or ", info(t).name);
  return names;
}

void set_row_major(Array& array) {
  array.strides.assign(array.dims.size(), 1);
  for (std::size_t i = array.dims.size(); i-- > 1;)
    array.strides[i - 1] = array.strides[i] * std::max<std::int64_t>(array.dims[i], 1);
}

/// The file says its element type and its axes; what is read is what one of them is.
Array loaded(const std::string& path, const std::vector<ElementType>& elements) {
  std::string problem;
  for (const ElementType element : elements) {
    for (int rank = 0; rank <= kMaxAxes; ++rank) {
      std::int64_t dims[kMaxAxes];
      try {
        detail::NpyFile file(path, element, rank, dims, {});
        Array array;
        array.element = element;
        array.dims.assign(dims, dims + rank);
        set_row_major(array);
        const auto count = static_cast<std::int64_t>(array.bytes() / static_cast<std::size_t>(size_of(element)));
        array.storage = file.read(element, count, Stream::default_of(Device::cpu()), {});
        array.written.assign(array.bytes(), 1);
        return array;
      } catch (const IoError& error) {
        if (problem.empty()) problem = error.message();
      }
    }
  }
  throw IoError(concat("expected a .npy file of ", names_of(elements), ", row-major, found: ", problem));
}

template <class T = std::int64_t>
T integer_of(std::string_view text, std::type_identity_t<T> least, std::type_identity_t<T> most,
             const std::string& what) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw UsageError(concat("expected ", what, ", found ", text));
  return value;
}

/// `f32[4,8]`: zeros.
Array made(const std::string& text, const std::vector<ElementType>& elements) {
  const std::size_t open = text.find('[');
  const auto element =
      std::ranges::find_if(elements, [&](ElementType t) { return text.substr(0, open) == info(t).name; });
  if (open == std::string::npos || !text.ends_with(']') || element == elements.end())
    throw UsageError(concat("expected the element type and extents of a new array, such as ", info(elements[0]).name,
                            "[4,8], found ", text));
  Array array;
  array.element = *element;
  const std::string list = text.substr(open + 1, text.size() - open - 2);
  std::int64_t left = kMaxElements;
  for (std::size_t at = 0; !list.empty() && at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    array.dims.push_back(integer_of(list.substr(at, end - at), 0, left, "an extent"));
    left /= std::max<std::int64_t>(array.dims.back(), 1);
    at = end + 1;
  }
  if (array.dims.size() > static_cast<std::size_t>(kMaxAxes))
    throw UsageError(concat("expected at most ", kMaxAxes, " extents, found ", array.dims.size()));
  set_row_major(array);
  array.storage = runtime::Storage::allocate(Device::cpu(), array.bytes());
  std::fill_n(array.storage->data(), array.bytes(), std::byte{0});
  array.storage->host_wrote(0, array.bytes());
  array.written.assign(array.bytes(), 0);
  return array;
}

/// `x.npy`, `x.npy=y.npy`, `f32[4,8]=y.npy`.
Array array_of(const std::string& text, const std::vector<ElementType>& elements) {
  const std::size_t equals = text.find('=');
  const std::string source = text.substr(0, equals);
  Array array = source.ends_with(".npy") ? loaded(source, elements) : made(source, elements);
  if (equals != std::string::npos) array.output = text.substr(equals + 1);
  if (equals != std::string::npos && !array.output.ends_with(".npy"))
    throw UsageError(concat("expected a file that ends in .npy after `=`, found ", array.output));
  return array;
}

/// The items of `[x.npy,f32[4,8]=y.npy]`.
std::vector<std::string> items_of(const std::string& text) {
  if (text.size() < 3 || !text.ends_with(']'))
    throw UsageError(concat("expected a list of arrays such as [x.npy,f32[4,8]=y.npy], found ", text));
  std::vector<std::string> items(1);
  int open = 0;
  for (const char c : text.substr(1, text.size() - 2)) {
    open += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && open == 0)
      items.emplace_back();
    else
      items.back() += c;
  }
  if (std::ranges::any_of(items, [](const std::string& item) { return item.empty(); }))
    throw UsageError(concat("expected a list of arrays without gaps, such as [x.npy,f32[4,8]=y.npy], found ", text));
  return items;
}

/// What a list of arrays is in memory: a row of numbers for each, its address, extents and strides.
Array table_of(const std::vector<Array>& items) {
  Array table;
  table.element = ElementType::i64;
  table.dims = {static_cast<std::int64_t>(items.size()), static_cast<std::int64_t>(1 + 2 * items[0].dims.size())};
  set_row_major(table);
  table.storage = runtime::Storage::allocate(Device::cpu(), table.bytes());
  auto* number = reinterpret_cast<std::int64_t*>(table.storage->data());
  for (const Array& item : items) {
    if (item.dims.size() != items[0].dims.size())
      throw UsageError(concat("expected arrays of one rank in a list, found ", items[0].dims.size(), " and ",
                              item.dims.size(), " axes"));
    *number++ = reinterpret_cast<std::intptr_t>(item.storage->data());
    number = std::ranges::copy(item.dims, number).out;
    number = std::ranges::copy(item.strides, number).out;
  }
  table.storage->host_wrote(0, table.bytes());
  table.written.assign(table.bytes(), 1);
  return table;
}

/// The bits of a number for an argument of this element.
std::uint64_t bits_of(const std::string& text, ir::Elem e) {
  const std::string what = concat("a number of ", ir::info(e).text);
  if (!ir::info(e).is_float) {
    const int bits = ir::info(e).bits;
    // Negative numbers as signed integers, others as unsigned ones.
    if (text.starts_with('-'))
      return static_cast<std::uint64_t>(
          integer_of<std::int64_t>(text, bits == 1 ? 0 : INT64_MIN >> (64 - bits), 0, what));
    return integer_of<std::uint64_t>(text, 0, UINT64_MAX >> (64 - bits), what);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(concat("expected ", what, ", found ", text));
  return ir::from_double(e, value);
}

/// The only entry, or the one that is named: the others are removed.
const ir::Function& choose_entry(ir::Module& module, const std::string& name) {
  std::string names;
  for (const auto& f : module.functions)
    if (f->entry) names += concat(names.empty() ? "" : ", ", f->name);
  std::erase_if(module.functions, [&](const auto& f) { return !f->entry || (!name.empty() && f->name != name); });
  if (module.functions.size() == 1) return *module.functions[0];
  if (names.empty()) throw UsageError("expected an entry in the file, found none");
  throw UsageError(name.empty() ? concat("expected --entry with one of ", names)
                                : concat("there is no entry ", name, "; expected one of ", names));
}

/// The values of the command line as what a launch passes.
class Arguments {
 public:
  Arguments(const ir::Function& entry, const RunOptions& o) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < entry.body().num_args(); ++i) {
      const ir::Type type = entry.body().arg(i).type();
      if (!derived_.empty()) {
        if (type.is_pointer() || ir::info(type.elem()).is_float)
          fail_too_many_axes(entry, concat("argument ", i, " (", type.str(), ")"));
        slots_.push_back(derived_.front());
        derived_.erase(derived_.begin());
        continue;
      }
      if (next == o.values.size())
        throw UsageError(concat("expected a value for argument ", i, " (", type.str(), ") of ", entry.name, ", found ",
                                o.values.size(), " values"));
      const std::string& value = o.values[next++];
      if (type.is_pointer() && value.starts_with('['))
        add_list(value, type, o.tensors);
      else if (type.is_pointer())
        add_array(array_of(value, elements_of(type.pointee().elem())), o.tensors);
      else
        slots_.push_back(bits_of(value, type.elem()));
    }
    if (!derived_.empty()) fail_too_many_axes(entry, "the end of its arguments");
    if (next != o.values.size())
      throw UsageError(
          concat("expected ", next, " values for the arguments of ", entry.name, ", found ", o.values.size()));
  }

  std::span<const std::uint64_t> slots() const { return slots_; }

  std::vector<cpu::Region> regions() {
    std::vector<cpu::Region> all;
    for (Array& a : arrays_) all.push_back({a.storage->data(), a.bytes(), a.label, a.written.data()});
    return all;
  }

  void write_outputs() {
    for (Array& a : arrays_) {
      if (a.output.empty()) continue;
      a.storage->host_wrote(0, a.bytes());
      detail::ArgRef arg;
      arg.layout = {&a.storage, 0, a.dims, a.strides, a.element};
      detail::save(a.output, arg, static_cast<int>(a.dims.size()), {});
    }
  }

 private:
  /// With --tensors, extents and strides fill the arguments after the address, as those of recorded kernels.
  void add_array(Array array, bool tensors) {
    add_address(array);
    of_list_ = false;
    if (tensors)
      for (const auto* numbers : {&array.dims, &array.strides})
        for (const std::int64_t n : *numbers) derived_.push_back(static_cast<std::uint64_t>(n));
    keep(std::move(array));
  }

  /// With --tensors, the number of arrays fills the argument after the list's address.
  void add_list(const std::string& text, ir::Type type, bool tensors) {
    if (type.pointee().elem() != ir::Elem::I64)
      throw UsageError(concat("expected an array for an argument of type ", type.str(), ", found the list ", text,
                              "; lists are for tile<ptr<i64>>"));
    std::vector<Array> items;
    for (const std::string& item : items_of(text))
      items.push_back(array_of(item, {std::begin(kElements), std::end(kElements)}));
    Array table = table_of(items);
    add_address(table);
    of_list_ = true;
    if (tensors) derived_.push_back(items.size());
    for (Array& item : items) keep(std::move(item));
    table.label = concat("list ", ++lists_);
    arrays_.push_back(std::move(table));
  }

  [[noreturn]] void fail_too_many_axes(const ir::Function& entry, const std::string& where) const {
    if (of_list_)
      throw UsageError(concat("list ", lists_, " needs an argument of ", entry.name,
                              " for the number of its arrays, found ", where));
    throw UsageError(concat("array ", named_, " has more axes than ", entry.name, " takes: ", derived_.size(),
                            " of its extents and strides are left at ", where));
  }

  void add_address(const Array& array) { slots_.push_back(reinterpret_cast<std::uint64_t>(array.storage->data())); }

  void keep(Array array) {
    array.label = concat("array ", ++named_);
    arrays_.push_back(std::move(array));
  }

  int named_ = 0, lists_ = 0;
  bool of_list_ = false;  ///< what is left in `derived_` is a list's
  std::vector<std::uint64_t> slots_, derived_;
  std::vector<Array> arrays_;
};

cpu::Grid grid_of(const std::string& text) {
  cpu::Grid grid;
  std::uint32_t* const axes[] = {&grid.x, &grid.y, &grid.z};
  std::size_t axis = 0;
  for (std::size_t at = 0; at <= text.size(); ++axis) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (axis == std::size(axes)) throw UsageError(concat("--grid takes at most three numbers, found ", text));
    constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 24) - 1;
    *axes[axis] = static_cast<std::uint32_t>(
        integer_of(text.substr(at, end - at), 1, kMaxBlocks, "a number of blocks for --grid"));
    at = end + 1;
  }
  constexpr std::uint64_t kMaxOfAll = UINT32_MAX;
  if (std::uint64_t{grid.x} * grid.y > kMaxOfAll || std::uint64_t{grid.x} * grid.y * grid.z > kMaxOfAll)
    throw UsageError(concat("--grid takes at most ", kMaxOfAll, " blocks in all, found ", text));
  return grid;
}

RunOptions parse_run(Words words) {
  const Given given(row_of("run"), words);
  RunOptions o;
  o.values = given.words();
  if (o.values.empty()) throw UsageError("expected a file of Tile IR");
  o.file = o.values.front();
  o.values.erase(o.values.begin());
  o.entry = given.text("--entry");
  if (given.has("--grid")) o.grid = grid_of(given.text("--grid"));
  o.tensors = given.has("--tensors");
  o.checked = given.has("--checked");
  return o;
}

int run_file(const RunOptions& o) {
  IrFile file = valid_ir_file(o.file);
  const ir::Function& entry = choose_entry(*file.module, o.entry);
  Arguments arguments(entry, o);
  const auto program = cpu::Program::compile(*file.module);
  const std::vector<cpu::Region> regions = arguments.regions();
  program->run(o.grid, arguments.slots(), {.checked = o.checked, .regions = regions});
  arguments.write_outputs();
  return 0;
}

}  // namespace

int run_command(Words words) {
  if (asks_for_help(words)) return print_usage(row_of("run"));
  try {
    return run_file(parse_run(words));
  } catch (const UsageError& error) { return report_usage(row_of("run"), error); }
}

}  // namespace tessera
