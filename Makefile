.PHONY: demo test check bench docs clean
demo test check bench docs clean:
	@./dev $@
