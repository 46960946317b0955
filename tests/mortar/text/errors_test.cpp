// The errors of Mortar, as a program catches them.
#include "mortar/errors.hpp"

#include <gtest/gtest.h>

namespace mortar {
namespace THIS_FILE {

// A program catches errors of Mortar apart from those of Tessera, or both together.
TEST(MortarErrors, AreTesserasToo) {
  try {
    throw CapacityError("expected at most 3 sequences, found 5");
  } catch (const tessera::Error& e) {
    EXPECT_STREQ(e.what(), "CapacityError: expected at most 3 sequences, found 5");
    EXPECT_NE(dynamic_cast<const Error*>(&e), nullptr);
    EXPECT_EQ(dynamic_cast<const ModelError*>(&e), nullptr);
  }
}

}  // namespace THIS_FILE
}  // namespace mortar
