// Keys are kept and compared as SHA-256 digests: of one length, and nothing in a digest's prefix helps to guess a key.
#include "api_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>

#include "message_parser.hpp"
#include "mortar/errors.hpp"

namespace mortar {
namespace {

template <class Digest>
Digest digest_of(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

/// Takes the next word off the front; empty at the end.
std::string next_word(std::string_view& line) {
  constexpr std::string_view kSpace = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
  const std::size_t end = std::min(line.find_first_of(kSpace), line.size());
  std::string word(line.substr(0, end));
  line.remove_prefix(end);
  return word;
}

}  // namespace

KeyRing::KeyRing(const std::vector<ApiKey>& keys) {
  for (const ApiKey& key : keys) entries_.push_back({key.name, digest_of<Digest>(key.key)});
}

const std::string* KeyRing::find(std::string_view key) const {
  const Digest digest = digest_of<Digest>(key);
  const std::string* found = nullptr;
  for (const Entry& entry : entries_)
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry.name;
  return found;
}

std::string_view key_of(const HttpHeaders& headers) {
  if (const std::string* value = find_header(headers, "authorization")) {
    constexpr std::string_view kBearer = "Bearer ";
    std::string_view view = *value;
    if (view.size() < kBearer.size() || !equal_ignoring_case(view.substr(0, kBearer.size()), kBearer)) return {};
    view.remove_prefix(std::min(view.find_first_not_of(' ', kBearer.size()), view.size()));
    return view;
  }
  const std::string* value = find_header(headers, "x-api-key");
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

std::vector<ApiKey> read_api_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw RequestError(path + ": the file of API keys cannot be read");
  std::vector<ApiKey> keys;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    std::string_view line = text;
    const std::string first = next_word(line), second = next_word(line), third = next_word(line);
    if (first.empty() || first.starts_with('#')) continue;
    const std::string where = path + ":" + std::to_string(number) + ": ";
    if (!third.empty()) throw RequestError(where + "expected NAME KEY, or a key alone, found more than two words");
    ApiKey key = second.empty() ? ApiKey{std::to_string(keys.size() + 1), first} : ApiKey{first, second};
    for (const ApiKey& other : keys) {
      if (other.name == key.name)
        throw RequestError(where + "expected names that differ, found " + key.name + " twice");
      if (other.key == key.key) throw RequestError(where + "expected keys that differ, found that of " + other.name);
    }
    keys.push_back(std::move(key));
  }
  if (file.bad()) throw RequestError(path + ": the file of API keys cannot be read to its end");
  if (keys.empty()) throw RequestError(path + ": expected at least one API key, found none");
  return keys;
}

}  // namespace mortar
