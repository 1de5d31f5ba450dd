/* A chat in the terminal, against libmlxcel alone.
 *
 *     cc chat.c $(pkg-config --cflags --libs mlxcel) -o chat && ./chat model.gguf */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mlxcel.h>

static char conversation[1 << 20] = "[]"; /* a JSON array of messages */

/* Appends {"role": role, "content": text} to the conversation. */
static void add_message(const char *role, const char *text) {
    size_t n = strlen(conversation) - 1; /* over the closing bracket */
    if (n + 6 * strlen(text) + 100 > sizeof conversation) exit(1);
    char *end = conversation + sizeof conversation;
    char *at = conversation + n;
    at += snprintf(at, (size_t)(end - at), "%s{\"role\":\"%s\",\"content\":\"", n > 1 ? "," : "",
                   role);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool plain = *p >= ' ' && *p != '"' && *p != '\\';
        at += snprintf(at, (size_t)(end - at), plain ? "%c" : "\\u%04x", *p);
    }
    snprintf(at, (size_t)(end - at), "\"}]");
}

static bool print_text(void *answer, const mlxcel_event *event) {
    fwrite(event->text, 1, event->text_bytes, stdout);
    fflush(stdout);
    strncat(answer, event->text, event->text_bytes);
    return true; /* false would stop the answer */
}

static void answer_it(mlxcel_model *model, mlxcel_engine *engine) {
    static char answer[1 << 16];
    mlxcel_error err = {0};
    mlxcel_prompt *prompt = NULL;
    mlxcel_request *request = NULL;
    answer[0] = 0;
    if (mlxcel_chat_prompt(model, conversation, NULL, &prompt, &err) &&
        mlxcel_request_new(engine, mlxcel_prompt_ids(prompt), mlxcel_prompt_n_ids(prompt), &request,
                           &err) &&
        mlxcel_request_set(request, "n_predict", "300", &err) &&
        mlxcel_request_run(request, print_text, answer, &err))
        add_message("assistant", answer);
    else
        fprintf(stderr, "%s", err.message);
    puts("");
    mlxcel_request_free(request);
    mlxcel_prompt_free(prompt);
}

int main(int argc, char **argv) {
    char line[4096];
    mlxcel_error err = {0};
    mlxcel_model *model = NULL;
    mlxcel_engine *engine = NULL;
    if (argc != 2) return fprintf(stderr, "usage: chat MODEL\n"), 2;
    if (!mlxcel_model_open(argv[1], NULL, &model, &err) ||
        !mlxcel_engine_open(model, NULL, &engine, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    while (fputs("> ", stdout), fflush(stdout), fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        add_message("user", line);
        answer_it(model, engine);
    }
    mlxcel_engine_close(engine);
    mlxcel_model_close(model);
    return 0;
}
