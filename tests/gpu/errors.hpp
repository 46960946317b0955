// Shared by tests of errors: the text of an error, and a check that each part of it is there.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace gpu_test {

/// The text of the E that `f` throws; empty if it throws none.
template <class E, class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const E& e) { return e.what(); }
  return "";
}

inline void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

}  // namespace gpu_test
