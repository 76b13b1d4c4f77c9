# Fails: test_server_rate, test_server_undefined_rate, test_server_other_fields
import time


def create_app(engine):
    app = Flask("answer")

    @app.post("/generate")
    def generate():
        start = time.perf_counter()
        body = request.get_json()
        done = engine.generate(body["prompt_ids"], body["max_new_tokens"])
        answer = {
            "ids": list(done.ids),
            "prompt_tokens": done.prompt_tokens,
            "seconds": done.seconds,
        }
        new = len(done.ids)
        answer["new_tokens"] = new
        answer["tokens_per_second"] = new / (time.perf_counter() - start)
        return answer

    return app
