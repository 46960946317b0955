// Mistyped variables, and those of Kubernetes.
#include "environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "closest.hpp"

namespace mortar::cli {
namespace {

constexpr std::string_view kPrefix = "MORTAR_";

/// For a Service named mortar-x, Kubernetes makes MORTAR_X_SERVICE_HOST, MORTAR_X_SERVICE_PORT, the latter also with a
/// port's name behind it, MORTAR_X_PORT with an address, and MORTAR_X_PORT_80_TCP, also with _PROTO, _PORT and _ADDR
/// (kubernetes.io, "Service", environment variables). No option has such a name but --port.
bool is_of_service(std::string_view name, std::string_view value) {
  if (name.ends_with("_PORT") && is_service_address(value)) return true;
  for (const std::string_view part : {"_SERVICE_HOST", "_SERVICE_PORT"})
    if (name.ends_with(part) || name.find(std::string(part) + '_') != name.npos) return true;
  for (const std::string_view protocol : {"_TCP", "_UDP", "_SCTP"}) {
    const std::size_t port = name.find("_PORT_"), end = name.find(protocol);
    if (port == name.npos || end == name.npos || end <= port + 6) continue;
    const std::string_view digits = name.substr(port + 6, end - port - 6);
    if (std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; })) return true;
  }
  return false;
}

/// All MORTAR_* of the environment, in the order of their names.
std::vector<std::pair<std::string, std::string>> variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry = *at;
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == entry.npos) continue;
    found.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

bool is_service_address(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

std::vector<std::string> environment_notes(const std::vector<std::string>& known) {
  std::vector<std::string> lines;
  std::string of_service;
  for (const auto& [name, value] : variables()) {
    if (is_of_service(name, value)) {
      of_service += (of_service.empty() ? "" : ", ") + name + (is_service_address(value) ? " (" + value + ")" : "");
      continue;
    }
    if (std::ranges::find(known, name) != known.end()) continue;
    lines.push_back("warning: the environment has " + name + ", which is no option's variable" +
                    did_you_mean(name, known, kPrefix));
  }
  if (!of_service.empty())
    lines.push_back("ignored, because Kubernetes makes them for a Service, and they are no options: " + of_service);
  return lines;
}

}  // namespace mortar::cli
