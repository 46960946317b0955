// Views, loads, stores, atomics, tokens, allocations, printing and assertions.
#include <array>
#include <cstring>

#include "codegen/cpu/control_instr.hpp"
#include "codegen/cpu/memory_instr.hpp"
#include "codegen/cpu/translate.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::cpu {
namespace {

/// The bits that a load puts where the tensor ends. Without a declared padding the value is unspecified: zero here.
std::uint64_t padding_bits(ir::Type view) {
  const auto padding = view.padding();
  if (!padding) return 0;
  return ir::from_double(view.elem(), ir::padding_number(*padding));
}

ViewAccess make_access(const View& view) {
  const ir::Type type = view.type;
  const ir::ElemInfo& elem = ir::info(type.elem());
  ViewAccess a;
  a.view = view.descriptor;
  a.tensor_rank = static_cast<int>(type.tensor().shape().size());
  a.elem_bytes = elem.bytes;
  a.bools = elem.bits == 1;
  a.nibbles = elem.bits == 4;
  a.element_text = elem.text;
  const bool gathers = type.kind() == ir::TypeKind::GatherScatterView;
  if (gathers) a.sparse = type.sparse_dim();
  const auto tile = type.tile_shape();
  for (std::size_t i = 0; i < tile.size(); ++i) {
    ViewAccess::Axis axis{};
    axis.tile = tile[i];
    // The indices of a gathered tile count elements along the other axes too (cuTile Python, load_advanced_indexing).
    axis.step = type.kind() == ir::TypeKind::StridedView ? type.traversal_strides()[i] : gathers ? 1 : tile[i];
    axis.tensor_axis = gathers ? static_cast<int>(i) : type.dim_map()[i];
    a.axes.push_back(axis);
  }
  return a;
}

std::vector<std::int64_t> byte_strides(const Tile& t) {
  std::vector<std::int64_t> out;
  for (auto s : t.stride) out.push_back(s * t.elem_bytes);
  return out;
}

}  // namespace

bool Translator::translate_memory(const ir::Operation& op) {
  switch (op.op()) {
    case ir::Op::MakeTensorView: translate_tensor_view(op); return true;
    case ir::Op::MakePartitionView:
    case ir::Op::MakeStridedView:
    case ir::Op::MakeGatherScatterView: {
      View v = view(op.operand(0));
      v.type = op.result().type();
      views_.insert_or_assign(op.result().impl(), v);
      return true;
    }
    case ir::Op::GetTensorShape:
    case ir::Op::GetIndexSpaceShape: translate_view_query(op); return true;
    case ir::Op::LoadViewTko:
    case ir::Op::StoreViewTko:
    case ir::Op::AtomicRedViewTko: translate_view_access(op); return true;
    case ir::Op::LoadPtrTko:
    case ir::Op::StorePtrTko: translate_pointer_access(op); return true;
    case ir::Op::AtomicRMWTko:
    case ir::Op::AtomicCASTko: translate_atomic(op); return true;
    case ir::Op::MakeToken:
    case ir::Op::JoinTokens:
    case ir::Op::GdcLaunchDependentsTko:
    case ir::Op::GdcWaitTko:
    case ir::Op::MemoryFenceAliasTko: translate_tokens(op); return true;
    case ir::Op::Alloca: translate_alloca(op); return true;
    case ir::Op::GetGlobal: translate_global(op); return true;
    case ir::Op::PrintTko: translate_print(op); return true;
    case ir::Op::Assert: translate_assert(op); return true;
    default: return false;
  }
}

void Translator::translate_tensor_view(const ir::Operation& op) {
  const ir::Type type = op.result().type();
  const Tile& base = tile(op.single("base"));
  std::vector<Ref> refs{base.ref};
  const auto words = [&](std::span<const std::int64_t> fixed, const std::vector<ir::Value>& dynamic) {
    std::vector<Word> out;
    std::size_t next = 0;
    for (std::int64_t v : fixed) {
      Word w;
      if (v == ir::kDynamic) {
        const ir::Value d = dynamic[next++];
        w = {tile(d).ref, d.type().elem(), 0, false};
        refs.push_back(w.ref);
      } else {
        w.value = v;
      }
      out.push_back(w);
    }
    return out;
  };
  auto extents = words(type.shape(), op.group("dynamicShape"));
  auto strides = words(type.strides(), op.group("dynamicStrides"));
  Scope* to = target(refs);
  const Ref dst = new_buffer(static_cast<std::int64_t>(8 * (1 + extents.size() + strides.size())), to);
  auto* instr = emit<MakeViewInstr>(to);
  instr->dst = dst;
  instr->base = base.ref;
  instr->extents = std::move(extents);
  instr->strides = std::move(strides);
  for (Ref r : refs) instr->accesses.push_back({r.buffer, false});
  instr->accesses.push_back({dst.buffer, true});
  views_.insert_or_assign(op.result().impl(), View{dst, type, root_of(op.single("base"))});
}

void Translator::translate_view_query(const ir::Operation& op) {
  const View& v = view(op.operand(0));
  Scope* to = target({v.descriptor});
  std::vector<ViewQueryInstr::Result> results;
  for (std::size_t i = 0; i < op.num_results(); ++i) {
    const Tile t = new_tile(op.result(i).type(), to);
    define(op.result(i), t);
    ViewQueryInstr::Result r{t.ref, op.result(i).type().elem(), static_cast<int>(i), 1};
    if (op.op() == ir::Op::GetIndexSpaceShape) {
      const ViewAccess a = make_access(v);
      r.axis = a.axes[i].tensor_axis;
      r.step = a.axes[i].step;
    }
    results.push_back(r);
  }
  auto* instr = emit<ViewQueryInstr>(to);
  instr->view = v.descriptor;
  instr->accesses = {{v.descriptor.buffer, false}};
  for (const auto& r : results) instr->accesses.push_back({r.dst.buffer, true});
  instr->results = std::move(results);
}

Site Translator::make_site(const ir::Operation& op, const char* verb, int root, bool reads, bool writes, bool atomic) {
  Site site;
  site.where = op.loc;
  site.verb = verb;
  site.root = root;
  site.reads = reads;
  site.writes = writes;
  site.atomic = atomic;
  const ir::Value in = op.single("token");
  const std::int32_t none = 0;
  site.token_in = in ? tile(in).ref : constant_ref(&none, sizeof none);
  const ir::Value out = op.result(op.num_results() - 1);
  site.token_out = new_buffer(4, scope_);
  define(out, Tile{site.token_out, 4, {}, {}});
  return site;
}

/// Records how the instruction touches its tokens.
void Translator::attach_site(Instr& instr, const Site& site, const ir::Operation&) {
  instr.accesses.push_back({site.token_in.buffer, false});
  instr.accesses.push_back({site.token_out.buffer, true});
  instr.in_place.push_back({site.token_in.buffer, site.token_out.buffer});
}

void Translator::translate_view_access(const ir::Operation& op) {
  const View& v = view(op.single("view"));
  ViewAccess access = make_access(v);
  const auto indices = op.group("index");
  const auto* inbounds = op.attr(ir::AttrName::inbounds);
  std::vector<Access> accesses{{v.descriptor.buffer, false}};
  for (std::size_t i = 0; i < access.axes.size(); ++i) {
    auto& axis = access.axes[i];
    axis.index = static_cast<int>(i) == access.sparse ? dense(tile(indices[i])).ref : tile(indices[i]).ref;
    axis.index_elem = indices[i].type().elem();
    if (inbounds != nullptr) {
      const auto& claims = inbounds->as<ir::BoolArrayAttr>()->values;
      axis.inbounds = i < claims.size() && claims[i];
    }
    accesses.push_back({axis.index.buffer, false});
  }
  const auto finish = [&](auto* instr) {
    instr->access = std::move(access);
    instr->accesses.insert(instr->accesses.end(), accesses.begin(), accesses.end());
    attach_site(*instr, instr->site, op);
  };
  if (op.op() == ir::Op::LoadViewTko) {
    const Tile dst = new_tile(op.result(0).type(), scope_);
    const Site site = make_site(op, "load", v.root, true, false, false);
    auto* instr = emit<ViewLoadInstr>(scope_);
    instr->site = site;
    instr->dst = dst.ref;
    instr->tile = dst.shape;
    instr->dst_stride = byte_strides(dst);
    instr->count = dst.count();
    instr->padding = padding_bits(v.type);
    accesses.push_back({dst.ref.buffer, true});
    define(op.result(0), dst);
    return finish(instr);
  }
  const Tile src = tile(op.single(op.op() == ir::Op::StoreViewTko ? "tile" : "value"));
  accesses.push_back({src.ref.buffer, false});
  if (op.op() == ir::Op::StoreViewTko) {
    const Site site = make_site(op, "store", v.root, false, true, false);
    auto* instr = emit<ViewStoreInstr>(scope_);
    instr->site = site;
    instr->src = src.ref;
    instr->src_stride = byte_strides(src);
    return finish(instr);
  }
  const Site site = make_site(op, "atomic update", v.root, true, true, true);
  auto* instr = emit<ViewAtomicInstr>(scope_);
  instr->site = site;
  instr->src = src.ref;
  instr->src_stride = byte_strides(src);
  instr->mode = op.enum_attr<ir::AtomicMode>(ir::AttrName::mode);
  instr->elem = v.type.elem();
  finish(instr);
}

Lane Translator::lane(const Tile& t, std::vector<Access>& accesses) {
  const bool splat = t.is_splat() && t.count() > 1;
  const Ref ref = splat ? t.ref : dense(t).ref;
  accesses.push_back({ref.buffer, false});
  return {ref, splat, true};
}

SeparablePlace Translator::separable_place(const SeparableAccess& from, const Tile& elements,
                                           std::vector<Access>& accesses) {
  const auto read = [&](ir::Value v, bool one) {
    const Ref ref = one ? tile(v).ref : dense(tile(v)).ref;
    accesses.push_back({ref.buffer, false});
    return ref;
  };
  SeparablePlace place;
  place.base = read(from.base, true);
  place.tile = elements.shape;
  place.stride = byte_strides(elements);
  place.listed = from.listed;
  place.elem_bytes = elements.elem_bytes;
  for (const auto& o : from.offsets) {
    SeparablePlace::Offset& made = place.offsets.emplace_back();
    made = {o.axis, o.counted, !o.places, {}, ir::Elem::I64, o.bytes};
    const bool one = o.axis == kNoAxis || o.counted;
    if (o.places) made.places = read(o.places, one), made.elem = o.places.type().elem();
  }
  for (const auto& l : from.limits) {
    SeparablePlace::Limit& made = place.limits.emplace_back();
    made = {l.axis, l.counted, !l.first, {}, read(l.bound, l.axis == kNoAxis || l.counted), l.bound.type().elem()};
    if (l.first) made.first = read(l.first, true);
  }
  return place;
}

void Translator::translate_separable_access(const ir::Operation& op, const SeparableAccess& from) {
  const bool load = op.op() == ir::Op::LoadPtrTko;
  const int root = root_of(op.single(load ? "source" : "destination"));
  std::vector<Access> accesses;
  const auto finish = [&](auto* instr, const Site& site) {
    instr->site = site;
    instr->accesses = std::move(accesses);
    attach_site(*instr, site, op);
  };
  if (load) {
    Lane padding;
    if (const ir::Value p = op.single("paddingValue")) padding = lane(tile(p), accesses);
    const Tile dst = new_tile(op.result(0).type(), scope_);
    SeparablePlace place = separable_place(from, dst, accesses);
    accesses.push_back({dst.ref.buffer, true});
    const Site site = make_site(op, "load", root, true, false, false);
    auto* instr = emit<SeparableLoadInstr>(scope_);
    instr->place = std::move(place);
    instr->padding = padding;
    instr->dst = dst.ref;
    instr->count = dst.count();
    instr->bools = op.result(0).type().elem() == ir::Elem::I1 && !op.result(0).type().is_pointer();
    finish(instr, site);
    return define(op.result(0), dst);
  }
  const Tile src = dense(tile(op.single("value")));
  accesses.push_back({src.ref.buffer, false});
  SeparablePlace place = separable_place(from, src, accesses);
  const Site site = make_site(op, "store", root, false, true, false);
  auto* instr = emit<SeparableStoreInstr>(scope_);
  instr->place = std::move(place);
  instr->src = src.ref;
  finish(instr, site);
}

void Translator::translate_pointer_access(const ir::Operation& op) {
  if (const auto at = separable_->accesses.find(&op); at != separable_->accesses.end())
    return translate_separable_access(op, at->second);
  const bool load = op.op() == ir::Op::LoadPtrTko;
  const ir::Value pointers = op.single(load ? "source" : "destination");
  std::vector<Access> accesses;
  Lane at{dense(tile(pointers)).ref, false, true}, mask, other;
  accesses.push_back({at.ref.buffer, false});
  if (ir::Value m = op.single("mask")) mask = lane(tile(m), accesses);
  if (ir::Value o = op.single(load ? "paddingValue" : "value")) other = lane(tile(o), accesses);
  const auto order = op.enum_attr<ir::MemoryOrdering>(ir::AttrName::memory_ordering_semantics);
  const auto finish = [&](auto* instr, const Site& site) {
    instr->site = site;
    instr->pointers = at;
    instr->mask = mask;
    instr->order = order;
    instr->accesses = accesses;
    attach_site(*instr, site, op);
  };
  if (load) {
    const Tile dst = new_tile(op.result(0).type(), scope_);
    const Site site = make_site(op, "load", root_of(pointers), true, false, false);
    accesses.push_back({dst.ref.buffer, true});
    auto* instr = emit<PointerLoadInstr>(scope_);
    finish(instr, site);
    instr->padding = other;
    instr->dst = dst.ref;
    instr->count = dst.count();
    instr->elem_bytes = dst.elem_bytes;
    instr->bools = op.result(0).type().elem() == ir::Elem::I1 && !op.result(0).type().is_pointer();
    return define(op.result(0), dst);
  }
  const Site site = make_site(op, "store", root_of(pointers), false, true, false);
  auto* instr = emit<PointerStoreInstr>(scope_);
  finish(instr, site);
  instr->value = other;
  instr->count = pointers.type().num_elements();
  instr->elem_bytes = tile(op.single("value")).elem_bytes;
}

void Translator::translate_atomic(const ir::Operation& op) {
  const bool swap = op.op() == ir::Op::AtomicCASTko;
  const ir::Value pointers = op.single("pointers");
  std::vector<Access> accesses;
  const Tile dst = new_tile(op.result(0).type(), scope_);
  const Ref at = dense(tile(pointers)).ref;
  accesses.push_back({at.buffer, false});
  Lane mask, compare;
  if (ir::Value m = op.single("mask")) mask = lane(tile(m), accesses);
  const Lane value = lane(tile(op.single(swap ? "val" : "arg")), accesses);
  if (swap) compare = lane(tile(op.single("cmp")), accesses);
  accesses.push_back({dst.ref.buffer, true});
  const Site site = make_site(op, "atomic update", root_of(pointers), true, true, true);
  auto* instr = emit<AtomicInstr>(scope_);
  instr->site = site;
  instr->pointers = {at, false, true};
  instr->mask = mask;
  instr->value = value;
  instr->compare = compare;
  instr->dst = dst.ref;
  instr->count = dst.count();
  instr->elem_bytes = dst.elem_bytes;
  instr->elem = op.result(0).type().elem();
  if (!swap) instr->mode = op.enum_attr<ir::AtomicMode>(ir::AttrName::mode);
  instr->accesses = std::move(accesses);
  attach_site(*instr, site, op);
  define(op.result(0), dst);
}

void Translator::translate_tokens(const ir::Operation& op) {
  const std::int32_t none = 0;
  if (op.op() == ir::Op::JoinTokens) {
    const Ref dst = new_buffer(4, scope_);
    auto* instr = emit<JoinTokensInstr>(scope_);
    instr->dst = dst;
    for (ir::Value v : op.operand_values()) {
      instr->tokens.push_back(tile(v).ref);
      instr->accesses.push_back({tile(v).ref.buffer, false});
    }
    instr->accesses.push_back({dst.buffer, true});
    return define(op.result(), Tile{dst, 4, {}, {}});
  }
  // make_token, and what has no meaning on a CPU: the token goes through.
  const bool through = op.num_operands() > 0;
  define(op.result(), through ? tile(op.operand(0)) : Tile{constant_ref(&none, sizeof none), 4, {}, {}});
}

void Translator::translate_alloca(const ir::Operation& op) {
  const ir::Type pointee = op.result().type();
  const std::int64_t bytes = op.int_attr(ir::AttrName::num_elem) * ir::info(pointee.elem()).bytes;
  const std::int64_t alignment = op.int_attr(ir::AttrName::alignment);
  const Ref memory = new_buffer(bytes + alignment, scope_);
  buffers[memory.buffer].whole_scope = true;
  const Tile dst = new_tile(8, {}, scope_);
  auto* instr = emit<AllocaInstr>(scope_, dst.ref, memory, bytes, alignment);
  instr->accesses = {{memory.buffer, true}, {dst.ref.buffer, true}};
  define(op.result(), dst);
}

void Translator::translate_global(const ir::Operation& op) {
  const std::string& name = *op.attr(ir::AttrName::name)->as<std::string>();
  auto found = global_pointers_.find(name);
  if (found == global_pointers_.end()) {
    const ir::Global* global = nullptr;
    for (const ir::Global& g : module_.globals)
      if (g.name == name) global = &g;
    if (global == nullptr) unsupported(op, concat("there is no global @", name));
    const ir::DenseAttr& value = global->value;
    const std::int64_t elem = ir::info(value.type.elem()).bytes, count = value.type.num_elements();
    const std::int64_t align = std::max<std::int64_t>(global->alignment, 64);
    GlobalMemory memory;
    memory.bytes = elem * count;
    memory.storage = std::make_unique<std::byte[]>(static_cast<std::size_t>(memory.bytes + align));
    auto address = reinterpret_cast<std::uintptr_t>(memory.storage.get());
    memory.base = memory.storage.get() + ((address + static_cast<std::uintptr_t>(align) - 1) /
                                              static_cast<std::uintptr_t>(align) * static_cast<std::uintptr_t>(align) -
                                          address);
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(memory.base + i * elem, value.bytes.data() + (value.splat ? 0 : i * elem),
                  static_cast<std::size_t>(elem));
    const std::byte* base = memory.base;
    globals.push_back(std::move(memory));
    found = global_pointers_.emplace(name, constant_ref(&base, sizeof base)).first;
  }
  define(op.result(), Tile{found->second, 8, {}, {}});
}

void Translator::translate_print(const ir::Operation& op) {
  std::vector<PrintInstr::Argument> arguments;
  std::vector<Access> accesses;
  for (ir::Value v : op.group("args")) {
    const Tile t = dense(tile(v));
    accesses.push_back({t.ref.buffer, false});
    const ir::Type type = v.type();
    arguments.push_back({t.ref, t.shape, type.elem(), type.is_pointer()});
  }
  auto* instr = emit<PrintInstr>(scope_);
  instr->format = *op.attr(ir::AttrName::str)->as<std::string>();
  instr->arguments = std::move(arguments);
  instr->accesses = std::move(accesses);
  const std::int32_t none = 0;
  if (op.num_results() > 0) {
    const ir::Value in = op.single("token");
    define(op.result(0), in ? tile(in) : Tile{constant_ref(&none, sizeof none), 4, {}, {}});
  }
}

void Translator::translate_assert(const ir::Operation& op) {
  const Tile& t = tile(op.operand(0));
  auto* instr = emit<AssertInstr>(scope_);
  instr->condition = t.ref;
  instr->shape = t.shape;
  instr->stride = byte_strides(t);
  instr->message = *op.attr(ir::AttrName::message)->as<std::string>();
  instr->where = op.loc;
  instr->accesses = {{t.ref.buffer, false}};
}

}  // namespace tessera::cpu
