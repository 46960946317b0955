// Errors about invalid arguments, in the same form for all commands.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "command_rows.hpp"
#include "tessera/base/format.hpp"

namespace tessera {

bool asks_for_help(Words words) {
  return words.size() == 1 && (std::strcmp(words[0], "--help") == 0 || std::strcmp(words[0], "-h") == 0);
}

int print_usage(const CommandRow& row) {
  std::fputs(usage_of(row).c_str(), stdout);
  return 0;
}

int report_usage(const CommandRow& row, const UsageError& error) {
  std::fprintf(stderr, "tessera %s: %s\n%s", row.name, error.what(), usage_of(row).c_str());
  return 2;
}

std::string value_of(Words words, std::size_t& i) {
  if (i + 1 >= words.size()) throw UsageError(concat("expected a value after ", words[i]));
  return words[++i];
}

double number_of(const std::string& option, const std::string& text, double least) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= least) return value;
  throw UsageError(concat(option, " takes a number of at least ", least, ", found ", text));
}

constexpr int kOldestGpu = 80;  // the oldest that NVIDIA's assembler compiles Tile IR for (docs/install.md)

void check_gpus(const std::string& text) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool digits = word.size() > 3 && word.find_first_not_of("0123456789", 3) == std::string::npos;
    if (!word.starts_with("sm_") || !digits || word.size() > 6)
      throw UsageError(concat("--gpu takes a list such as sm_90,sm_100, found ", text));
    if (std::stoi(word.substr(3)) < kOldestGpu)
      throw UsageError(concat("--gpu: kernels are compiled for sm_", kOldestGpu, " and newer GPUs, found ", word));
    at = end + 1;
  }
}

}  // namespace tessera
