// The text form of tuning records: what is written is read again, and what is malformed is rejected.
#include "tessera/passes/tuning_text.hpp"

#include <gtest/gtest.h>

#include "tessera/base/error.hpp"

namespace tessera::passes {
namespace THIS_FILE {

TEST(TuningText, IsReadBackAsWritten) {
  Tuning t;
  EXPECT_EQ(text_of(t), "");
  EXPECT_EQ(parse_tuning(" , "), t);
  t.warps = 8;
  t.latency = 6;
  t.ahead = 2;
  t.access = AccessPath::Pointer;
  t.stores = AccessPath::View;
  t.pipeline_mma = false;
  t.overlap = Overlap::Never;
  EXPECT_EQ(text_of(t), "warps=8 latency=6 ahead=2 access=pointer stores=view pipeline=0 overlap=0");
  EXPECT_EQ(text_of(parse_tuning("split=1")), "") << "the default";
  EXPECT_EQ(text_of(parse_tuning("split=0")), "split=0");
  EXPECT_EQ(text_of(parse_tuning("hints=1")), "") << "the default";
  EXPECT_EQ(text_of(parse_tuning("hints=0 ahead=0 pipeline=0")), "ahead=0 pipeline=0 hints=0");
  EXPECT_EQ(text_of(parse_tuning("overlap=1")), "") << "the default";
  EXPECT_EQ(parse_tuning("overlap=2").overlap, Overlap::Always);
  EXPECT_EQ(parse_tuning("early_tiles=3").early_tiles, 3);
  EXPECT_EQ(parse_tuning(text_of(t)), t);
  EXPECT_EQ(parse_tuning("pipeline=0,stores=view,access=pointer latency=6, ahead=2 overlap=0 warps=8"), t);
}

TEST(TuningText, WhatItDoesNotUnderstandIsNamed) {
  for (const char* word : {"warps", "warps=", "warps=four", "warps=4x", "wraps=4", "access=tmo", "stores=1", "split=2",
                           "overlap=4", "=4"}) {
    try {
      (void)parse_tuning(std::string("ctas=2 ") + word);
      ADD_FAILURE() << word << " was accepted";
    } catch (const CompileError& e) {
      EXPECT_NE(std::string(e.what()).find(std::string("\"") + word + "\""), std::string::npos) << e.what();
    }
  }
}

}  // namespace THIS_FILE
}  // namespace tessera::passes
