// Variables of the environment that look like options and are none.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mortar::cli {

/// Whether the value of an environment variable is one that Kubernetes makes for a Service ("tcp://10.0.0.1:8080"): of
/// a Service named mortar it is MORTAR_PORT, which is no option's value.
bool is_service_address(std::string_view value);

/// Lines for people about the variables MORTAR_* of this process that are none of `known`: a warning for each, with the
/// name that it was probably meant to be; one note for all that Kubernetes makes for a Service.
std::vector<std::string> environment_notes(const std::vector<std::string>& known);

}  // namespace mortar::cli
