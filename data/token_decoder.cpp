#include "data/token_decoder.hpp"

#include <cstdint>
#include <optional>

#include "data/pre_tokenizer.hpp"
#include "data/unicode.hpp"
#include "data/utf8.hpp"

namespace zerolock {
namespace {

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  int value = 0;
  for (const char digit : token.substr(3, 2)) {
    if (digit >= '0' && digit <= '9') {
      value = value * 16 + (digit - '0');
    } else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f') {
      value = value * 16 + ((digit | 0x20) - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return static_cast<char>(value);
}

/// The bytes a token stands for: those of its characters if all are of the alphabet, else its own.
std::string bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const auto byte = byte_of(next_code_point(token, at));
    if (!byte) return std::string(token);
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

struct ApplyStep {
  std::vector<std::string> tokens;

  std::vector<std::string> operator()(const ReplaceText& step) {
    for (std::string& token : tokens) token = replace_all(token, step.from, step.to);
    return std::move(tokens);
  }

  std::vector<std::string> operator()(const DecodeByteFallback&) const {
    std::vector<std::string> decoded;
    std::string bytes;
    const auto end_run = [&] {
      if (first_invalid_utf8(bytes)) {
        for (std::size_t i = 0; i < bytes.size(); ++i) decoded.emplace_back("\uFFFD");
      } else if (!bytes.empty()) {
        decoded.push_back(bytes);
      }
      bytes.clear();
    };
    for (const std::string& token : tokens) {
      if (const auto byte = byte_of_token(token)) {
        bytes += *byte;
      } else {
        end_run();
        decoded.push_back(token);
      }
    }
    end_run();
    return decoded;
  }

  std::vector<std::string> operator()(const FuseTokens&) const {
    std::string fused;
    for (const std::string& token : tokens) fused += token;
    return {std::move(fused)};
  }

  std::vector<std::string> operator()(const StripTokens& step) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::size_t i = 0; i < step.start && rest.starts_with(step.character); ++i) {
        rest.remove_prefix(step.character.size());
      }
      for (std::size_t i = 0; i < step.stop && rest.ends_with(step.character); ++i) {
        rest.remove_suffix(step.character.size());
      }
      token = std::string(rest);
    }
    return std::move(tokens);
  }

  std::vector<std::string> operator()(const DecodeByteLevel&) const {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_token(token);
    return {replace_invalid_utf8(bytes)};
  }

  std::vector<std::string> operator()(const DecodeMetaspace& step) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(tokens[i], step.replacement, i == 0 && step.drops_first ? "" : " ");
    }
    return std::move(tokens);
  }
};

}  // namespace

std::string TokenDecoder::decode(std::vector<std::string> tokens) const {
  for (const DecoderStep& step : steps_) tokens = std::visit(ApplyStep{std::move(tokens)}, step);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && steps_.empty()) text += ' ';
    text += tokens[i];
  }
  return text;
}

}  // namespace zerolock
