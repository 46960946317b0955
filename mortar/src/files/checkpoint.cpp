// A folder of safetensors files, its index, and whether its tensors are those of the model.
#include "mortar/checkpoint.hpp"

#include <algorithm>
#include <cstring>

#include "files/json_file.hpp"
#include "files/layout.hpp"
#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "text/read_text.hpp"

namespace mortar {
namespace {

using files::fail;
using tessera::concat;

constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 26;
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
/// Frequencies of the rotation, which older versions of transformers have saved: config.json says what they are.
constexpr std::string_view kFrequencies = "rotary_emb.inv_freq";

/// weight_map of an index: tensor to file.
std::unordered_map<std::string, std::string> weight_map(const std::filesystem::path& index) {
  const auto json = files::parse_object(text::read_text(index.string(), kMaxIndexBytes), index.string());
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) fail(index.string(), "weight_map", "an object", "none");
  std::unordered_map<std::string, std::string> files;
  for (const auto& [tensor, value] : map->items()) {
    const std::string file = value.is_string() ? value.get<std::string>() : "";
    if (file.empty() || file == "." || file == ".." || file.find_first_of(std::string_view("/\0", 2)) != file.npos)
      fail(index.string(), concat("weight_map.", tensor), "the name of a file in the same folder", files::shown(value));
    files.emplace(tensor, file);
  }
  if (files.empty()) fail(index.string(), "weight_map", "at least one tensor", "none");
  return files;
}

std::string type_and_shape(const FileTensor& t) { return concat(name_of(t.type), " [", tessera::join(t.shape), ']'); }

/// What a file must have for a part of a tensor.
struct Expected {
  std::vector<FileType> types;
  std::vector<std::int64_t> shape;
};
Expected expected_of(const files::WeightTensor& weight, const files::Part& part) {
  Expected e;
  if (weight.stored == files::Stored::Bf16) e.types = {FileType::BF16, FileType::F32, FileType::F16};
  if (weight.stored == files::Stored::Fp8) e.types = {FileType::F8_E4M3};
  if (weight.stored == files::Stored::Scales) e.types = {FileType::F32, FileType::BF16};
  if (!weight.is_vector()) e.shape.push_back(part.file_rows);
  e.shape.push_back(part.file_columns);
  return e;
}

void check_tensor(const Checkpoint::Entry& entry, const Expected& e) {
  const FileTensor& t = *entry.tensor;
  if (t.shape == e.shape && std::find(e.types.begin(), e.types.end(), t.type) != e.types.end()) return;
  std::string expected;
  for (const FileType type : e.types) expected += concat(expected.empty() ? "" : " or ", name_of(type));
  fail(entry.file->path(), t.name, concat(expected, " [", tessera::join(e.shape), "] (from config.json)"),
       type_and_shape(t));
}

/// Whether two tensors of one shape have the same type and bits. Reads both up to the first difference.
bool have_same_bits(const Checkpoint::Entry& a, const Checkpoint::Entry& b) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  if (a.tensor->type != b.tensor->type) return false;
  const std::uint64_t bytes = a.tensor->bytes;
  std::vector<std::byte> of_a(std::min(kStep, bytes)), of_b(of_a.size());
  for (std::uint64_t done = 0; done < bytes; done += kStep) {
    const std::size_t n = std::min(kStep, bytes - done);
    a.file->read(a.tensor->begin + done, std::span(of_a).first(n));
    b.file->read(b.tensor->begin + done, std::span(of_b).first(n));
    if (std::memcmp(of_a.data(), of_b.data(), n) != 0) return false;
  }
  return true;
}

/// "a, b and 3 more", in order.
std::string listed(const std::set<std::string>& names) {
  constexpr std::size_t kShown = 4;
  std::string text;
  std::size_t shown = 0;
  for (const std::string& name : names) {
    if (shown == kShown) return concat(text, " and ", names.size() - shown, " more");
    text += concat(shown++ == 0 ? "" : ", ", name);
  }
  return text;
}

/// What a folder without safetensors files has instead, and what to do with it.
std::string other_weights(const std::filesystem::path& folder) {
  std::set<std::string> pickled, gguf, shards;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string extension = at->path().extension().string(), name = at->path().filename().string();
    if (extension == ".safetensors") shards.insert(name);
    if (name.starts_with("pytorch_model") && extension == ".bin") pickled.insert(name);
    if (name.starts_with("consolidated") && extension == ".pth") pickled.insert(name);
    if (extension == ".gguf") gguf.insert(name);
  }
  if (!shards.empty())
    return concat(listed(shards), " without the index. Fetch ", kIndex, " and the files that it names");
  if (!pickled.empty())
    return concat(listed(pickled),
                  " alone, which only PyTorch reads. Save the model as safetensors: "
                  "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW), and "
                  "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(NEW)");
  if (!gguf.empty())
    return concat(listed(gguf), " alone: GGUF files are not read. Fetch the safetensors files that were published");
  return "neither";
}

/// The weights of the row of this role.
std::string weights_of(const ModelSpec& model, files::Role role) {
  return concat(model.tensors->of(role).name, files::kWeight);
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder.string()) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) fail(folder_, "", "a folder with a model", "none");
  if (std::filesystem::exists(folder / kSingleFile, error)) {
    open(folder / kSingleFile);
    return;
  }
  if (!std::filesystem::exists(folder / kIndex, error))
    fail(folder_, "", concat(kSingleFile, " or ", kIndex), other_weights(folder));
  const auto placed = weight_map(folder / kIndex);
  std::set<std::string> names;
  for (const auto& [tensor, file] : placed) names.insert(file);
  for (const std::string& name : names) open(folder / name);
  check_index((folder / kIndex).string(), placed);
}

void Checkpoint::open(const std::filesystem::path& path) {
  files_.push_back(std::make_shared<const TensorFile>(path));
  const TensorFile& file = *files_.back();
  for (const FileTensor& tensor : file.tensors()) {
    const auto [other, added] = entries_.emplace(tensor.name, Entry{&file, &tensor});
    if (!added)
      fail(file.path(), tensor.name, "each tensor in one file", concat("it in ", other->second.file->path(), " too"));
  }
}

void Checkpoint::check_index(const std::string& index,
                             const std::unordered_map<std::string, std::string>& placed) const {
  for (const auto& [tensor, file] : placed) {
    const Entry* entry = find(tensor);
    const std::string path = (std::filesystem::path(folder_) / file).string();
    if (entry == nullptr || entry->file->path() != path)
      fail(index, concat("weight_map.", tensor), concat("the tensor in ", file), entry ? entry->file->path() : "none");
  }
  for (const auto& [tensor, entry] : entries_)
    if (!placed.contains(tensor))
      fail(entry.file->path(), tensor, concat("a tensor that ", kIndex, " has"), "it here alone");
}

const Checkpoint::Entry* Checkpoint::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

/// The files of the folder that have tensors, but none that are looked at.
std::set<std::string> Checkpoint::unread_files() const {
  std::set<std::string> unread;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".safetensors") unread.insert(at->path().filename().string());
  for (const auto& file : files_) unread.erase(std::filesystem::path(file->path()).filename().string());
  return unread;
}

ModelSpec Checkpoint::verify(const ModelSpec& model, const OnWarning& warn) const {
  check_tensors(model);
  ModelSpec found = model;
  const std::string head_name = weights_of(model, files::Role::LmHead);
  const std::string embedding_name = weights_of(model, files::Role::Embedding);
  const Entry* head = model.tied ? find(head_name) : nullptr;
  found.tied = model.tied && (head == nullptr || have_same_bits(*head, *find(embedding_name)));
  if (!warn) return found;
  warn_of_rounding(found, warn);
  if (found.tied != model.tied)
    warn(concat((std::filesystem::path(folder_) / "config.json").string(), ": tie_word_embeddings is true, but ",
                head_name, " in ", head->file->path(), " differs from ", embedding_name, ": ", head_name,
                " is used, as by Hugging Face transformers. If that is what you want, set tie_word_embeddings to "
                "false; if not, remove the tensor."));
  if (const auto unread = unread_files(); !unread.empty())
    warn(concat(folder_, ": safetensors files that are not read: ", listed(unread), ". The weights are those of ",
                std::filesystem::path(files_[0]->path()).filename() == kSingleFile ? kSingleFile : kIndex, '.'));
  return found;
}

void Checkpoint::warn_of_rounding(const ModelSpec& model, const OnWarning& warn) const {
  std::set<std::string> rounded, types;
  for (const files::WeightTensor& weight : files::weight_tensors(model)) {
    if (weight.stored != files::Stored::Bf16) continue;
    for (const files::Part& part : weight.parts) {
      const Entry& entry = *find(part.name);
      if (entry.tensor->type == FileType::BF16) continue;
      rounded.insert(part.name);
      types.insert(name_of(entry.tensor->type));
    }
  }
  if (!rounded.empty())
    warn(concat(folder_, ": ", rounded.size(), rounded.size() == 1 ? " tensor is " : " tensors are ", listed(types),
                " and ", rounded.size() == 1 ? "is" : "are", " rounded to BF16: ", listed(rounded), '.'));
}

void Checkpoint::check_tensors(const ModelSpec& model) const {
  // A config.json may claim many layers and experts: their names are made only if there is a tensor for half of them.
  if (const std::uint64_t least = files::least_tensors(model); least / 2 > size())
    fail(folder_, "", concat("at least ", least, " tensors for the model of config.json"), concat(size()));
  std::set<std::string> missing, used;
  for (const files::WeightTensor& weight : files::weight_tensors(model)) {
    for (const files::Part& part : weight.parts) {
      const Entry* entry = find(part.name);
      if (entry == nullptr) {
        missing.insert(part.name);
      } else {
        check_tensor(*entry, expected_of(weight, part));
        used.insert(part.name);
      }
    }
  }
  const std::string head_name = weights_of(model, files::Role::LmHead);
  if (const Entry* head = model.tied ? find(head_name) : nullptr) {
    check_tensor(*head, {{FileType::BF16, FileType::F32, FileType::F16}, {model.vocabulary, model.hidden}});
    used.insert(head_name);
  }
  if (!missing.empty())
    fail(folder_, "", "the tensors of the model of config.json", concat("that there is no ", listed(missing)));
  if (used.size() == size()) return;
  std::set<std::string> unexpected;
  for (const auto& [name, entry] : entries_)
    if (!used.contains(name) && !name.ends_with(kFrequencies)) unexpected.insert(name);
  if (unexpected.empty()) return;
  fail(folder_, "", "only tensors of the model of config.json", listed(unexpected));
}

}  // namespace mortar
