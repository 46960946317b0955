// SHA-256 against the examples of its standard, and independence of how the message is cut.
#include "jit/code/sha256.hpp"

#include <gtest/gtest.h>

#include <string>

using namespace tessera::jit;

namespace {

std::string of(std::string_view text) { return hex(Sha256().add(text).finish()); }

TEST(Sha256, ExamplesOfTheStandard) {
  // NIST, "Descriptions of SHA-256, SHA-384 and SHA-512", appendix B; and the empty message.
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, CutsDoNotMatter) {
  std::string message;
  for (int i = 0; i < 300; ++i) message += static_cast<char>(i * 7);
  for (std::size_t length : {0u, 1u, 55u, 56u, 57u, 63u, 64u, 65u, 119u, 120u, 128u, 300u}) {
    const std::string_view text(message.data(), length);
    const std::string whole = of(text);
    for (std::size_t cut = 0; cut <= length; ++cut) {
      ASSERT_EQ(hex(Sha256().add(text.substr(0, cut)).add(text.substr(cut)).finish()), whole)
          << length << " at " << cut;
    }
  }
}

TEST(Sha256, TheProcessorsInstructionsAgree) {
  if (!has_sha_instructions()) GTEST_SKIP() << "this processor has none";
  std::string message;
  std::uint32_t random = 1;
  for (int i = 0; i < 1000; ++i) message += static_cast<char>((random = random * 1664525u + 1013904223u) >> 24);
  for (std::size_t length = 0; length <= message.size(); ++length) {
    const std::string_view text(message.data(), length);
    ASSERT_EQ(Sha256(true).add(text).finish(), Sha256(false).add(text).finish()) << length;
  }
}

TEST(Sha256, FieldsAreToldApart) {
  EXPECT_NE(Sha256().add_field("ab").add_field("c").finish(), Sha256().add_field("a").add_field("bc").finish());
}

}  // namespace
