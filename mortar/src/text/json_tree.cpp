// A tree from the callbacks of the reader.
#include "text/json_tree.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "text/json_writer.hpp"

namespace mortar::text {
namespace {

constexpr std::size_t kSearched = 16;  // fields up to which a repeated name is searched one by one
constexpr std::size_t kShown = 40;     // bytes of a value that a message shows

class TreeReader {
 public:
  TreeReader(std::string_view text, const std::string& name, const JsonLimits& limits)
      : reader_(text, name, JsonReader::Errors::Request), name_(name), limits_(limits), left_(limits.values) {}

  Json all() {
    Json out = value();
    reader_.end();
    return out;
  }

 private:
  Json value() {
    if (left_-- == 0)
      throw RequestError(tessera::concat(name_, ": expected at most ", limits_.values, " values, found more"));
    Json out;
    out.kind = reader_.peek();
    const std::size_t begin = reader_.offset();
    if (out.kind == Json::Kind::Object)
      read_object(out);
    else if (out.kind == Json::Kind::Array)
      reader_.array([&] { out.items.push_back(value()); });
    else
      reader_.skip();
    out.source = reader_.since(begin);
    return out;
  }

  void read_object(Json& out) {
    std::unordered_map<std::string, std::size_t> places;  // of large objects only
    reader_.object([&](std::string_view field) {
      std::string name(field);
      Json read = value();
      std::size_t at = out.fields.size();
      if (at < kSearched) {
        for (std::size_t i = 0; i < out.fields.size(); ++i)
          if (out.fields[i].name == name) at = i;
      } else {
        if (places.empty())
          for (std::size_t i = 0; i < out.fields.size(); ++i) places.emplace(out.fields[i].name, i);
        at = places.emplace(name, at).first->second;
      }
      if (at < out.fields.size() && !limits_.repeats)
        throw RequestError(tessera::concat(name_, ": the field '", name, "' occurs twice"));
      if (at < out.fields.size())
        out.fields[at].value = std::move(read);
      else
        out.fields.push_back({std::move(name), std::move(read)});
    });
  }

  JsonReader reader_;
  const std::string& name_;
  JsonLimits limits_;
  std::size_t left_;
};

}  // namespace

const Json* Json::find(std::string_view name) const {
  for (const auto& [key, value] : fields)
    if (key == name) return &value;
  return nullptr;
}

std::string Json::string() const {
  if (kind != Kind::String) return {};
  if (source.find('\\') == source.npos) return std::string(source.substr(1, source.size() - 2));
  return std::string(JsonReader(source, "string", JsonReader::Errors::Request).string());
}

std::optional<std::int64_t> Json::integer() const {
  std::int64_t value = 0;
  if (kind != Kind::Number) return std::nullopt;
  const auto r = std::from_chars(source.data(), source.data() + source.size(), value);
  if (r.ec == std::errc{} && r.ptr == source.data() + source.size()) return value;
  // 1.0 and 1e3 are integers too, as JSON Schema has it.
  const std::optional<double> d = number();
  if (!d || *d < -9e15 || *d > 9e15 || *d != static_cast<double>(static_cast<std::int64_t>(*d))) return std::nullopt;
  return static_cast<std::int64_t>(*d);
}

std::optional<double> Json::number() const {
  double value = 0;
  if (kind != Kind::Number) return std::nullopt;
  const auto r = std::from_chars(source.data(), source.data() + source.size(), value);
  if (r.ec != std::errc{} || r.ptr != source.data() + source.size()) return std::nullopt;
  return value;
}

bool Json::operator==(const Json& other) const {
  if (kind != other.kind || items != other.items || fields.size() != other.fields.size()) return false;
  if (kind == Kind::Number) return source == other.source;
  if (kind == Kind::String) {
    const bool plain = source.find('\\') == source.npos && other.source.find('\\') == source.npos;
    return source == other.source || (!plain && string() == other.string());
  }
  return std::all_of(fields.begin(), fields.end(), [&](const Field& field) {
    const Json* theirs = other.find(field.name);
    return theirs != nullptr && *theirs == field.value;
  });
}

Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  return TreeReader(text, name, limits).all();
}

std::string description(const Json& value) {
  std::string text(value.source.substr(0, kShown));
  while (text.size() < value.source.size() && !text.empty() && (value.source[text.size()] & 0xC0) == 0x80)
    text.pop_back();
  if (text.size() < value.source.size()) text += "...";
  switch (value.kind) {
    case Json::Kind::Object: return "an object";
    case Json::Kind::Array: return tessera::concat("an array of ", value.items.size());
    case Json::Kind::String: return "the string " + text;
    default: return text;
  }
}

std::string written(const Json& value) {
  std::string out;
  const auto separate = [&out] {
    if (out.size() > 1) out += ',';
  };
  switch (value.kind) {
    case Json::Kind::Object:
      out = "{";
      for (const auto& [name, inner] : value.fields) {
        separate();
        append_json_string(out, name);
        out += ':' + written(inner);
      }
      return out + '}';
    case Json::Kind::Array:
      out = "[";
      for (const Json& inner : value.items) {
        separate();
        out += written(inner);
      }
      return out + ']';
    case Json::Kind::String: return json_string(value.string());
    case Json::Kind::Number: return std::string(value.source);
    case Json::Kind::True: return "true";
    case Json::Kind::False: return "false";
    case Json::Kind::Null: break;
  }
  return "null";
}

}  // namespace mortar::text
