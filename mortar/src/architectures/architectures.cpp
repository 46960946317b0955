// Which architecture a config.json is of.
#include <cstddef>
#include <iterator>
#include <string>

#include "architectures/architecture.hpp"
#include "tessera/base/format.hpp"
#include "text/read_text.hpp"

namespace mortar {
namespace {

using architectures::Architecture;
using architectures::kArchitectures;
using files::Fields;
using tessera::concat;

/// "a, b or c" of the names, or of the types in quotation marks.
std::string alternatives(const char* Architecture::*member, const char* mark) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kArchitectures); ++i) {
    const bool last = i + 1 == std::size(kArchitectures);
    text += concat(i == 0 ? "" : last ? " or " : ", ", mark, kArchitectures[i]->*member, mark);
  }
  return text;
}

const Architecture& architecture_of(const Fields& f) {
  const std::string expected = alternatives(&Architecture::name, "");
  const auto names = f.texts("architectures");
  if (names.size() > 1) f.fail("architectures", concat("one of ", expected));
  for (const Architecture* a : kArchitectures) {
    const bool by_type = f.text_or("model_type", a->model_type) == a->model_type;
    if (names.empty() ? f.has("model_type") && by_type : names[0] == a->name) {
      if (!by_type) f.fail("model_type", concat('"', a->model_type, "\" (architectures has ", a->name, ")"));
      return *a;
    }
  }
  if (names.empty()) f.fail("model_type", alternatives(&Architecture::model_type, "\""));
  files::fail(f.file(), "architectures", expected, names[0]);
}

}  // namespace

ModelSpec parse_config(std::string_view text, const std::string& file) {
  const auto json = files::parse_object(text, file);
  const Fields fields(json, file);
  const Architecture& architecture = architecture_of(fields);
  ModelSpec spec = architecture.read(fields);
  spec.architecture = architecture.name;
  return spec;
}

ModelSpec read_config(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  return parse_config(text::read_text(file.string(), files::kMaxBytes), file.string());
}

}  // namespace mortar
