// Each name is a hash of a word that says what it names, and of fields with their lengths. A recording as it was traced
// is hashed as a complete stream of numbers, with values, types and strings by their number in order of appearance.
// Bytecode would do as well, but takes four times as long, because it is sorted into tables.
#include "jit/store/code_key.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "tessera/base/bytes.hpp"
#include "tessera/base/pointer_numbers.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {
namespace {

/// Changes when bundles of older builds of Tessera must not be used: when the ABI between kernels and the launcher or
/// the meaning of obligations changes in a way that their texts do not show.
constexpr std::string_view kGeneration = "tessera bundle 9";

void add(Sha256& hash, int number) { hash.add_number(static_cast<std::uint64_t>(number)); }

class Stream {
 public:
  Stream() { out_.reserve(1 << 14); }
  std::span<const std::byte> view() const noexcept { return out_.view(); }

  void number(std::uint64_t n) { out_.varint(n); }
  void signed_number(std::int64_t n) {
    out_.varint(static_cast<std::uint64_t>(n) << 1 ^ static_cast<std::uint64_t>(n >> 63));
  }
  template <class E>
    requires std::is_enum_v<E>
  void number(E e) {
    out_.varint(static_cast<std::uint64_t>(e));
  }
  void text(std::string_view t) {
    out_.varint(t.size());
    out_.bytes(std::as_bytes(std::span(t)));
  }
  template <class Ints>
  void ints(const Ints& values) {
    out_.varint(values.size());
    for (const auto v : values) signed_number(static_cast<std::int64_t>(v));
  }
  void maybe(const std::optional<std::int64_t>& n) {
    out_.varint(n.has_value());
    if (n) signed_number(*n);
  }

  void location(const SourceLocation& where) {
    constant_text(where.file);
    constant_text(where.function);
    out_.varint(where.line);
    out_.varint(where.column);
  }
  void type(ir::Type t);
  void types(std::span<const ir::Type> all) {
    out_.varint(all.size());
    for (const ir::Type t : all) type(t);
  }
  void attribute(const ir::Attribute& a);
  void dictionary(const ir::DictAttr& d);
  void dense(const ir::DenseAttr& d);
  void block(const ir::Block& b);
  void module(const ir::Module& m);

 private:
  void constant_text(const char* t) {
    const auto [n, is_new] = texts_.give(t);
    out_.varint(n);
    if (is_new) text(t);
  }
  void define(ir::Value v) { type(v.type()), values_.give(v.impl()); }
  void operation(const ir::Operation& op);

  BytesOut out_;
  PointerNumbers values_{1024}, types_, texts_;
};

void Stream::type(ir::Type t) {
  if (!t) return number(0);
  const auto [n, is_new] = types_.give(t.data());
  number(n);
  if (!is_new) return;
  number(t.kind());
  switch (t.kind()) {
    case ir::TypeKind::Element: return number(t.elem());
    case ir::TypeKind::Pointer: return type(t.pointee());
    case ir::TypeKind::Tile: return type(t.element_type()), ints(t.shape());
    case ir::TypeKind::TensorView: return number(t.elem()), ints(t.shape()), ints(t.strides());
    case ir::TypeKind::PartitionView: ints(t.dim_map()); break;
    case ir::TypeKind::StridedView: ints(t.traversal_strides()), ints(t.dim_map()); break;
    case ir::TypeKind::GatherScatterView: signed_number(t.sparse_dim()); break;
    case ir::TypeKind::Token: return;
    case ir::TypeKind::Function: return types(t.inputs()), types(t.results());
  }
  type(t.tensor());
  ints(t.tile_shape());
  number(t.padding() ? static_cast<std::uint64_t>(*t.padding()) + 1 : 0);
}

/// One overload per kind of attribute.
struct AttributeWriter {
  Stream& s;

  void operator()(const ir::UnitAttr&) const {}
  void operator()(bool v) const { s.number(std::uint64_t{v}); }
  void operator()(const ir::IntAttr& v) const { s.number(v.type), s.signed_number(v.value); }
  void operator()(const ir::FloatAttr& v) const { s.number(v.type), s.number(v.bits); }
  void operator()(const ir::EnumAttr& v) const { s.number(std::uint64_t{v.value}); }
  void operator()(const std::string& v) const { s.text(v); }
  void operator()(const ir::Type& v) const { s.type(v); }
  void operator()(const ir::DenseAttr& v) const { s.dense(v); }
  void operator()(const ir::DivByAttr& v) const { s.number(v.divisor), s.maybe(v.every), s.maybe(v.along); }
  void operator()(const ir::SameElementsAttr& v) const { s.ints(v.values); }
  void operator()(const ir::BoundedAttr& v) const { s.maybe(v.lower), s.maybe(v.upper); }
  void operator()(const ir::DictAttr& v) const { s.dictionary(v); }
  void operator()(const ir::ArrayAttr& v) const {
    s.number(v.items.size());
    for (const ir::Attribute& item : v.items) s.attribute(item);
  }
  void operator()(const ir::I32ArrayAttr& v) const { s.ints(v.values); }
  void operator()(const ir::BoolArrayAttr& v) const { s.ints(v.values); }
};

void Stream::attribute(const ir::Attribute& a) {
  number(std::uint64_t{a.storage().index()});
  std::visit(AttributeWriter{*this}, a.storage());
}

void Stream::dictionary(const ir::DictAttr& d) {
  number(d.entries.size());
  for (const auto& [name, value] : d.entries) text(name), attribute(value);
}

void Stream::dense(const ir::DenseAttr& d) {
  type(d.type);
  number(std::uint64_t{d.splat});
  number(d.bytes.size());
  out_.bytes(d.bytes);
}

void Stream::operation(const ir::Operation& op) {
  number(op.op());
  location(op.loc);
  number(op.attrs().size());
  for (const ir::NamedAttr& a : op.attrs()) number(a.name), attribute(a.value);
  ints(op.group_sizes());
  number(op.num_operands());
  for (const ir::OpOperand& o : op.operands()) number(std::uint64_t{values_.find(o.value.impl())});
  number(op.num_regions());
  for (std::size_t i = 0; i < op.num_regions(); ++i) block(op.region(i));
  number(op.num_results());
  for (std::size_t i = 0; i < op.num_results(); ++i) define(op.result(i));
}

void Stream::block(const ir::Block& b) {
  number(b.num_args());
  for (std::size_t i = 0; i < b.num_args(); ++i) define(b.arg(i));
  std::uint64_t operations = 0;
  for ([[maybe_unused]] const ir::Operation& op : b) ++operations;
  number(operations);
  for (const ir::Operation& op : b) operation(op);
}

void Stream::module(const ir::Module& m) {
  text(m.name);
  text(m.producer);
  number(m.globals.size());
  for (const ir::Global& g : m.globals) {
    text(g.name);
    dense(g.value);
    signed_number(g.alignment);
    number(std::uint64_t{g.is_private} | std::uint64_t{g.constant} << 1);
  }
  number(m.functions.size());
  for (const auto& f : m.functions) {
    text(f->name);
    number(std::uint64_t{f->entry});
    location(f->loc);
    dictionary(f->hints);
    block(f->body());
  }
}

void add_contract(Stream& s, const analysis::LaunchContract& c) {
  s.number(c.args.size());
  for (const analysis::ArgContract& a : c.args) s.number(a.role), s.signed_number(a.tensor), s.signed_number(a.axis);
  s.number(c.tensors.size());
  for (const analysis::TensorContract& t : c.tensors) {
    s.signed_number(t.base_arg);
    s.signed_number(t.rank);
    s.number(std::uint64_t{t.written} | std::uint64_t{t.exclusive} << 1 | std::uint64_t{t.nonempty} << 2);
  }
  s.signed_number(c.pieces_of_tensor);
  s.signed_number(c.blocks_arg);
  s.ints(c.piece);
  s.number(std::uint64_t{c.wide_grid});
  s.number(c.equal_args.size());
  for (const auto& [a, b] : c.equal_args) s.signed_number(a), s.signed_number(b);
}

}  // namespace

CacheKey recording_key(const ir::Module& recording, const analysis::LaunchContract& contract) {
  Stream s;
  add_contract(s, contract);
  s.module(recording);
  return Sha256().add_field("tessera recording").add_field(s.view()).finish();
}

CacheKey name_of(const CodeKey& key) {
  Sha256 hash;
  hash.add_field("tessera code").add(key.recording).add_number(key.predicates).add_field(key.hints);
  for (const int number : {key.target.sm, key.target.num_sms, key.target.bytecode_minor}) add(hash, number);
  return form_key(hash.add_field(key.maker).finish(), key.form);
}

CacheKey form_key(const CacheKey& key, Form form) {
  if (form == Form::Chosen) return key;
  return Sha256().add(key).add_field(text_of(form)).finish();
}

CacheKey recording_for_disk(const ir::Module& recording, const analysis::LaunchContract& contract,
                            std::span<const std::byte> build) {
  return Sha256().add_field("tessera notes 5").add_field(build).add(recording_key(recording, contract)).finish();
}

CacheKey name_on_disk(const CacheKey& recording, std::uint64_t predicates, const passes::Target& gpu,
                      const std::string& hints, const tileiras::Assembler& assembler) {
  BytesOut maker;
  maker.number(assembler.major);
  maker.number(assembler.minor);
  maker.text(assembler.identity);
  return name_of({recording, predicates, gpu, hints, Form::Chosen, maker.take()});
}

CacheKey recording_for_bundles(const ir::Module& recording, const analysis::LaunchContract& contract,
                               const analysis::Facts& facts) {
  Sha256 hash;
  hash.add_field(kGeneration).add_number(contract.args.size());
  for (const analysis::ArgContract& arg : contract.args) {
    hash.add_number(static_cast<std::uint64_t>(arg.role));
    add(hash, arg.tensor), add(hash, arg.axis);
  }
  for (const analysis::TensorContract& t : contract.tensors) hash.add_number(t.written).add_number(t.exclusive);
  add(hash, contract.pieces_of_tensor);
  hash.add_number(contract.wide_grid);
  for (const analysis::Obligation& o : facts.obligations()) hash.add_field(o.text);
  // A truncated text does not identify its obligation.
  const auto is_cut = [](const analysis::Obligation& o) { return o.text.find("...") != std::string::npos; };
  if (std::ranges::any_of(facts.obligations(), is_cut)) hash.add_field(facts.predicates().bytes());
  return hash.add_field(ir::write_bytecode(recording, {{}, false})).finish();
}

CacheKey identity_of(std::span<const std::byte> bytecode, const std::vector<calling::Check>& checks) {
  Sha256 hash;
  for (const calling::Check& check : checks) hash.add_field(check.message);
  return hash.add_field(bytecode).finish();
}

CacheKey name_in_memory(const CacheKey& identity, Device device, const CompileOptions& options) {
  Sha256 hash;
  hash.add_field(device.name()).add_number(options.checked).add_number(options.raw_writes);
  hash.add_number(options.tensors.size());
  for (const TensorArgument& t : options.tensors) add(hash, t.slot), hash.add_field(t.label);
  return hash.add(identity).finish();
}

CubinNames cubin_names(std::span<const std::byte> bytecode, const std::string& gpu,
                       const tileiras::Assembler& assembler, int opt_level, double processor_seconds) {
  Sha256 hash;
  hash.add_field("tessera cubin 1").add_field(gpu).add_number(static_cast<std::uint64_t>(opt_level));
  add(hash, assembler.major), add(hash, assembler.minor);
  CubinNames names;
  names.cubin = hash.add_field(assembler.identity).add_field(bytecode).finish();
  names.slow = Sha256().add_field("slow").add(names.cubin).finish();
  names.attempt = Sha256().add(names.cubin).add_number(static_cast<std::uint64_t>(processor_seconds * 1e6)).finish();
  return names;
}

}  // namespace tessera::jit
