// Writing the hints of one access as an attribute (see hints.hpp).
#include "passes/hints.hpp"

#include <algorithm>
#include <string>

namespace tessera::passes {
namespace {
constexpr const char* kAnyTarget = "default";
}

void set_hint(ir::Operation& access, std::string_view key, ir::Attribute value) {
  ir::DictAttr values;
  if (const ir::Attribute* old = access.attr(ir::AttrName::optimization_hints))
    for (const auto& [arch, entries] : old->as<ir::DictAttr>()->entries)
      if (arch == kAnyTarget) values = *entries.as<ir::DictAttr>();
  std::erase_if(values.entries, [&](const auto& entry) { return entry.first == key; });
  values.entries.emplace_back(std::string(key), std::move(value));
  std::sort(values.entries.begin(), values.entries.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  ir::DictAttr hints;
  hints.entries.emplace_back(kAnyTarget, std::move(values));
  access.set_attr(ir::AttrName::optimization_hints, std::move(hints));
}

const ir::Attribute* hint(const ir::Operation& access, std::string_view key) {
  const ir::Attribute* hints = access.attr(ir::AttrName::optimization_hints);
  if (!hints) return nullptr;
  for (const auto& [arch, entries] : hints->as<ir::DictAttr>()->entries)
    if (arch == kAnyTarget)
      for (const auto& [name, value] : entries.as<ir::DictAttr>()->entries)
        if (name == key) return &value;
  return nullptr;
}

void set_entry_hints(ir::Function& f, const Choices& c) {
  ir::DictAttr hints;
  if (c.ctas > 1) hints.entries.emplace_back("num_cta_in_cga", ir::IntAttr{ir::Elem::I32, c.ctas});
  if (c.warps > 0) hints.entries.emplace_back("num_worker_warps_per_cta", ir::IntAttr{ir::Elem::I32, c.warps});
  if (c.occupancy > 0) hints.entries.emplace_back("occupancy", ir::IntAttr{ir::Elem::I32, c.occupancy});
  f.hints = {};
  if (!hints.entries.empty()) f.hints.entries.emplace_back(kAnyTarget, std::move(hints));
}

}  // namespace tessera::passes
